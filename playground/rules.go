//go:build !js

package playground

import (
	"reflect"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/setpoint-dev/setpoint/server/validation"
)

// RulesOf returns the rules of a field.
func RulesOf(fd protoreflect.FieldDescriptor) (r Rules) {
	stated := validation.RulesOf(fd)
	bound := func(to **int64, stated bool, n int64) {
		if stated {
			*to = &n
		}
	}
	number, duration, text := stated.GetInt32(), stated.GetDuration(), stated.GetString()
	bound(&r.Least, number.HasGte(), int64(number.GetGte()))
	bound(&r.Most, number.HasLte(), int64(number.GetLte()))
	bound(&r.Least, duration.HasGte(), int64(duration.GetGte().AsDuration()))
	bound(&r.Most, duration.HasLte(), int64(duration.GetLte().AsDuration()))
	r.MostItems = int(max(stated.GetRepeated().GetMaxItems(), stated.GetMap().GetMaxPairs()))
	r.MostLength, r.Pattern, r.Words = int(text.GetMaxLen()), text.GetPattern(), text.GetIn()
	// Without presence 0 and "" are absent.
	r.Required = stated.GetRequired() || text.GetMinLen() > 0 || !fd.HasPresence() && number.GetGte() > 0
	return r
}

// rulesOf returns the rules of a message's Go field.
func rulesOf(message reflect.Type, i int) Rules {
	fields := reflect.New(message).Interface().(proto.Message).ProtoReflect().Descriptor().Fields()
	_, name, _ := strings.Cut(message.Field(i).Tag.Get("protobuf"), ",name=")
	name, _, _ = strings.Cut(name, ",")
	return RulesOf(fields.ByName(protoreflect.Name(name)))
}
