package cost

import (
	"reflect"
	"sync"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/setpoint-dev/setpoint/server/validation"
)

// Message has the tables of a message. It is safe for concurrent use.
type Message struct {
	// size is about how many bytes an empty one takes as a Go value.
	size int
	// fields by their numbers, nil for unused numbers.
	fields []*field
	// named are the fields by each name that JSON may use.
	named map[string]*field
}

// field has the tables of a field.
type field struct {
	// name is the JSON name.
	name string
	// tag is the field's encoded tag.
	tag   uint64
	shape shape
	// isText reports whether the values, or those of a map, are texts.
	isText bool
	// each is the size of a value without its content, bytes.
	each int
	// most is the maximum number of values, 0: unlimited; setting is the setting that
	// limits it instead.
	most    int
	setting setting
	// clipped reports whether lists in it are unlimited.
	clipped bool
	// count is its index among the counters of its message's lists.
	count int
	// message is the message of the values, or of a map's entries.
	message *Message
}

type shape uint8

const (
	single shape = iota
	list
	mapped
)

// setting is a setting of the server that limits a list.
type setting uint8

const (
	none setting = iota
	byPods
	bySamples
	byMetrics
	byBatch
)

// settings are the lists that settings limit.
var settings = map[protoreflect.FullName]setting{
	"setpoint.v1.RecommendRequest.pods":                byPods,
	"setpoint.v1.RecommendRequest.pod_metrics":         bySamples,
	"setpoint.v1.ReportObservationRequest.pods":        byPods,
	"setpoint.v1.ReportObservationRequest.pod_metrics": bySamples,
	"setpoint.v1.HorizontalPodAutoscalerSpec.metrics":  byMetrics,
	"setpoint.v1.BatchRecommendRequest.requests":       byBatch,
}

// clipped are messages whose excess is ignored when they are read, instead of refused: only
// their bytes limit them.
var clipped = map[protoreflect.FullName]bool{"setpoint.v1.RecommendRequest.previous_status": true}

// Limits are the settings that limit lists.
type Limits struct {
	// Pods limits the pods of a request. Twice as many may have samples.
	Pods int
	// Metrics limits the metrics of a spec, Batch the requests of a batch.
	Metrics, Batch int
}

// samplesPerPod is how many samples a request may have for each pod that it may have:
// some may belong to pods that are gone, or new.
const samplesPerPod = 2

// of returns the limit and its name, 0: none.
func (l *Limits) of(f *field) (most int, name string) {
	switch f.setting {
	case byPods:
		return l.Pods, "maxPods"
	case bySamples:
		return samplesPerPod * l.Pods, "maxPods"
	case byMetrics:
		return l.Metrics, "maxMetrics"
	case byBatch:
		return l.Batch, "maxBatch"
	}
	return f.most, ""
}

// Approximate sizes of values in bytes, including the allocator's rounding and the
// garbage of growing lists.
const (
	pointerSize  = 16  // an element of a list of messages
	textSize     = 16  // a text without its bytes
	listTextSize = 64  // a text in a list
	scalarSize   = 16  // an optional number or text
	mapSize      = 352 // a map with its first eight entries
	entrySize    = 160 // each further entry
	smallMap     = 8
)

// maxLists is how many lists a message may have.
const maxLists = 8

var tables struct {
	sync.Mutex
	of map[protoreflect.FullName]*Message
	// complete has those of messages that were asked for, to be read without the lock.
	complete sync.Map // of *Message, by protoreflect.MessageDescriptor
}

// Of returns the tables of a message and of all messages in it. It panics if a message
// has more than maxLists lists, which a test would find.
func Of(md protoreflect.MessageDescriptor) *Message {
	if m, ok := tables.complete.Load(md); ok {
		return m.(*Message)
	}
	tables.Lock()
	defer tables.Unlock()
	if tables.of == nil {
		tables.of = make(map[protoreflect.FullName]*Message)
	}
	m := compile(md)
	tables.complete.Store(md, m)
	return m
}

func compile(md protoreflect.MessageDescriptor) *Message {
	if m := tables.of[md.FullName()]; m != nil {
		return m
	}
	m := &Message{size: sizeOf(md), named: make(map[string]*field)}
	tables.of[md.FullName()] = m
	lists := 0
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		f := compileField(fd)
		if f.shape != single {
			f.count = lists
			lists++
		}
		for len(m.fields) <= int(fd.Number()) {
			m.fields = append(m.fields, nil)
		}
		m.fields[fd.Number()] = f
		m.named[fd.JSONName()], m.named[fd.TextName()] = f, f
	}
	if lists > maxLists {
		panic("cost: too many lists in " + string(md.FullName()))
	}
	return m
}

func compileField(fd protoreflect.FieldDescriptor) *field {
	f := &field{name: fd.JSONName(), most: most(fd), setting: settings[fd.FullName()], clipped: clipped[fd.FullName()]}
	value := fd
	switch {
	case fd.IsMap():
		f.shape, value = mapped, fd.MapValue()
	case fd.IsList():
		f.shape = list
	}
	f.isText = value.Kind() == protoreflect.StringKind || value.Kind() == protoreflect.BytesKind
	if value.Message() != nil {
		f.message = compile(value.Message())
		f.each = f.message.size
	}
	wire := protowire.VarintType
	switch {
	case f.message != nil || f.isText || fd.IsMap():
		wire = protowire.BytesType
	case fd.Kind() == protoreflect.DoubleKind:
		wire = protowire.Fixed64Type
	}
	f.tag = protowire.EncodeTag(fd.Number(), wire)
	switch {
	case f.shape == list && f.message != nil:
		f.each += pointerSize
	case f.shape == list:
		f.each += listTextSize
	case f.isText && f.shape != mapped: // a map's values are handled with the map
		f.each += textSize
	}
	if fd.HasOptionalKeyword() {
		f.each += scalarSize
	}
	return f
}

// most returns the maximum length of a list, by the rules of the .proto files.
func most(fd protoreflect.FieldDescriptor) int {
	switch rules := validation.RulesOf(fd); rules.WhichType() {
	case validate.FieldRules_Repeated_case:
		return int(rules.GetRepeated().GetMaxItems())
	case validate.FieldRules_Map_case:
		return int(rules.GetMap().GetMaxPairs())
	}
	return 0
}

// sizeOf returns the size of an empty message as a Go value.
func sizeOf(md protoreflect.MessageDescriptor) int {
	size := 64 + 24*md.Fields().Len()
	if t, err := protoregistry.GlobalTypes.FindMessageByName(md.FullName()); err == nil {
		size = int(reflect.TypeOf(t.Zero().Interface()).Elem().Size())
	}
	return size + size/8 // rounding by the allocator
}
