package kubernetes

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"google.golang.org/protobuf/types/known/timestamppb"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/quantity"
)

// The messages of the service have the fields of autoscaling/v2, under the same names. They differ in the types of
// texts, in what is a pointer, and in that quantities are texts and times are Timestamps.

// SpecToProto converts a spec as it is: it adds and drops nothing, except that it can't
// distinguish absent policies from an empty list. It converts every source that a metric has, even if its type names
// another one, so that the service can refuse them.
func SpecToProto(spec *autoscalingv2.HorizontalPodAutoscalerSpec) *setpointv1.HorizontalPodAutoscalerSpec {
	return toProto[setpointv1.HorizontalPodAutoscalerSpec](spec)
}

// StatusToProto converts a status of autoscaling/v2 to the service's.
func StatusToProto(status *autoscalingv2.HorizontalPodAutoscalerStatus) *setpointv1.HorizontalPodAutoscalerStatus {
	return toProto[setpointv1.HorizontalPodAutoscalerStatus](status)
}

// StatusFromProto converts the service's status to autoscaling/v2, for writing to the cluster.
// Errors name the quantities that do not parse.
func StatusFromProto(status *setpointv1.HorizontalPodAutoscalerStatus) (*autoscalingv2.HorizontalPodAutoscalerStatus, error) {
	return fromProto[autoscalingv2.HorizontalPodAutoscalerStatus](status)
}

// toProto returns the message of a value of the API, nil for nil. It shares maps and numbers with the value.
func toProto[M, V any](value *V) *M {
	if value == nil {
		return nil
	}
	message := new(M)
	_ = convert(reflect.ValueOf(message).Elem(), reflect.ValueOf(value).Elem()) // fails only for a text that is no quantity
	return message
}

// fromProto is the reverse conversion; of nil it is the zero value. Errors begin with the field.
func fromProto[V, M any](message *M) (*V, error) {
	value := new(V)
	if message == nil {
		return value, nil
	}
	if err := convert(reflect.ValueOf(value).Elem(), reflect.ValueOf(message).Elem()); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "."))
	}
	return value, nil
}

var (
	quantityType  = reflect.TypeFor[resource.Quantity]()
	timeType      = reflect.TypeFor[metav1.Time]()
	timestampType = reflect.TypeFor[timestamppb.Timestamp]()
)

// convert sets a value to what another one, of the other side, means. Both are addressable. Absent values, pointers and
// empty lists, stay absent.
func convert(to, from reflect.Value) error {
	if from.Type() == to.Type() {
		to.Set(from)
		return nil
	}
	if from.Kind() == reflect.Pointer {
		if from.IsNil() {
			return nil
		}
		from = from.Elem()
	}
	if from.Type() == timeType {
		to.Set(reflect.ValueOf(instantUnlessZero(from.Interface().(metav1.Time).Time)))
		return nil
	}
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	switch {
	case from.Type() == timestampType:
		to.Set(reflect.ValueOf(metav1.NewTime(from.Addr().Interface().(*timestamppb.Timestamp).AsTime())))
	case from.Type() == quantityType:
		copied := from.Interface().(resource.Quantity) // String stores its result, and others may read the object
		to.SetString(copied.String())
	case to.Type() == quantityType:
		parsed, err := quantity.Parse(from.String())
		if err != nil {
			return fmt.Errorf(": %q is not a quantity: %w", from.String(), err)
		}
		to.Set(reflect.ValueOf(parsed))
	case from.Kind() == reflect.String:
		to.SetString(from.String())
	case from.Kind() == reflect.Slice:
		return convertSlice(to, from)
	default:
		return convertStruct(to, from)
	}
	return nil
}

func convertSlice(to, from reflect.Value) error {
	if from.Len() == 0 {
		return nil
	}
	to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
	for i := range from.Len() {
		if err := convert(to.Index(i), from.Index(i)); err != nil {
			return fmt.Errorf("[%d]%w", i, err)
		}
	}
	return nil
}

func convertStruct(to, from reflect.Value) error {
	for _, f := range fieldsOf(to.Type(), from.Type()) {
		if err := convert(to.Field(f.to), from.Field(f.from)); err != nil {
			return fmt.Errorf(".%s%w", f.name, err)
		}
	}
	return nil
}

// shared is a field that two structs have, with its indexes.
type shared struct {
	name     string // in JSON
	to, from int
}

// fields are the shared ones of pairs of structs, which each reconcile converts.
var fields sync.Map // [2]reflect.Type to []shared

func fieldsOf(to, from reflect.Type) (both []shared) {
	if known, ok := fields.Load([2]reflect.Type{to, from}); ok {
		return known.([]shared)
	}
	for i := range from.NumField() {
		name := from.Field(i).Name
		same := func(other string) bool { return strings.EqualFold(other, name) } // ApiVersion is APIVersion
		if f, ok := to.FieldByNameFunc(same); ok {
			both = append(both, shared{strings.ToLower(name[:1]) + name[1:], f.Index[0], i})
		}
	}
	fields.Store([2]reflect.Type{to, from}, both)
	return both
}
