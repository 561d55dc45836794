//go:build !js

package hpa

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	autoscalingv1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/manifest"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/restjson"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/simulation"
)

// Autoscaler is an autoscaler as a file has it.
type Autoscaler struct {
	// File is the name of the file, for errors; it may be empty.
	File string
	// Object has the spec without the API's defaults. If the file names none, its name is the
	// file's, and its namespace "default".
	Object *autoscalingv2.HorizontalPodAutoscaler
	// Stored is the spec as [setpointv1.TargetServiceClient] stores it, with what else the file
	// has of that. Nil for an object that was not read here.
	Stored *setpointv1.TargetSpec
	// head is the beginning of the file, for the lines of errors; nil: they have none.
	head []byte
}

// Read reads all autoscalers of a file, YAML or JSON, of up to 256 MiB. Each of its documents is
// one of these:
//
//   - a manifest: a HorizontalPodAutoscaler of any version, Setpoint's own Autoscaler, or a list;
//   - a stored spec, as setpoint specs and the REST API take it: an object with spec; or a page of these (targetSpecs);
//   - a request, such as RecommendRequest: an object with spec, of which that, options and stages count;
//   - the spec itself: an object with maxReplicas.
//
// name is the file's, for errors. They say what the document looks like, and list all that is
// wrong with it, a line each. Values are judged in [Autoscaler.Engine].
func Read(name string, r io.Reader) ([]*Autoscaler, error) {
	dump := &manifest.Dump{Own: true}
	stored := make(map[*autoscalingv2.HorizontalPodAutoscaler]*setpointv1.TargetSpec)
	dump.Other = Other(name, stored)
	var head document.Head
	if err := dump.Read(name, io.TeeReader(r, &head), manifest.Autoscalers); err != nil {
		return nil, document.Lined(name, head.Bytes(), err)
	}
	out := make([]*Autoscaler, len(dump.Autoscalers))
	for i, object := range dump.Autoscalers {
		var err error
		if out[i], err = Dumped(name, dump, object, stored[object]); err != nil {
			return nil, err
		}
		out[i].head = head.Bytes()
	}
	return out, nil
}

// Dumped is one of a dump's autoscalers, read from that file. stored is what Other had for it, nil: nothing.
func Dumped(file string, dump *manifest.Dump, object *autoscalingv2.HorizontalPodAutoscaler, stored *setpointv1.TargetSpec) (*Autoscaler, error) {
	if stored == nil {
		stages, err := dump.Stages(object)
		if err != nil {
			return nil, fmt.Errorf("%s: %s/%s: %w", file, object.Namespace, object.Name, err)
		}
		stored = &setpointv1.TargetSpec{Spec: kubernetes.SpecToProto(&object.Spec), Options: dump.Options(object), Stages: stages, Period: dump.Period(object)}
	}
	return &Autoscaler{File: file, Object: object, Stored: stored}, nil
}

// ReadOne is Read for a file with exactly one autoscaler.
func ReadOne(name string, r io.Reader) (*Autoscaler, error) {
	all, err := Read(name, r)
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("%s: holds %d autoscalers, not one%s", name, len(all), listed(all))
	}
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// listed names the first autoscalers of several.
func listed(all []*Autoscaler) string {
	const most = 5
	var names []string
	for _, a := range all[:min(len(all), most)] {
		names = append(names, a.Object.Namespace+"/"+a.Object.Name)
	}
	switch more := len(all) - most; {
	case len(all) == 0:
		return ""
	case more > 0:
		return fmt.Sprintf(": %s and %d more", strings.Join(names, ", "), more)
	}
	return ": " + strings.Join(names, ", ")
}

// Named reports whether the file says which target a stored spec is of, so that Object's name is not the file's.
func (a *Autoscaler) Named() bool {
	_, ok := target.Parse(a.Stored.GetName())
	return ok
}

// Options are those that the file sets, nil: none.
func (a *Autoscaler) Options() *setpointv1.RecommendOptions { return a.Stored.GetOptions() }

// Stages are those of the file, with what the metrics of its spec have of them; nil: none. They belong to
// Object.Spec, which has no place for these.
func (a *Autoscaler) Stages() *setpointv1.Stages {
	return conversion.WithFallbacks(a.Stored.GetSpec(), a.Stored.GetStages())
}

// Engine returns the spec and the options as the engine takes them, with the API's defaults, for
// recommender.Input and for simulations. options may be nil; they replace the file's. The error
// lists all violations, a line each.
func (a *Autoscaler) Engine(options *setpointv1.RecommendOptions) (*simulation.Autoscaler, error) {
	stored, err := a.stored()
	if err != nil {
		return nil, err
	}
	if options == nil {
		options = stored.GetOptions()
	}
	read, violations := fromMessages(a.Object.Namespace, message(&a.Object.Spec), options, stored, validation.StructureAt("stages", stored.GetStages()))
	return read, a.errorOf(violations)
}

// stored is Stored, or of an object that was not read here what its annotation says.
func (a *Autoscaler) stored() (*setpointv1.TargetSpec, error) {
	if a.Object == nil {
		return nil, errors.New("the autoscaler has no Object")
	}
	if a.Stored != nil {
		return a.Stored, nil
	}
	stages, err := autoscalingv1.AnnotatedStages(a.Object.Annotations)
	return &setpointv1.TargetSpec{Stages: stages}, err
}

// errorOf is nil without violations, else a line for each, with the file's name and line.
func (a *Autoscaler) errorOf(violations []Violation) error {
	if a.File == "" {
		return errorOf("", violations)
	}
	return document.Lined(a.File, a.head, errorOf(a.File+": ", violations))
}

// errorOf is nil without violations, else a line for each, after the place.
func errorOf[V fmt.Stringer](place string, violations []V) error {
	var all []error
	for _, v := range violations {
		all = append(all, errors.New(place+v.String()))
	}
	return errors.Join(all...)
}

// form is what an object without apiVersion and kind may be.
type form struct {
	name string
	// message has the object's fields.
	message func() proto.Message
	// read reads it from JSON.
	read func([]byte, proto.Message) error
}

var forms = []form{
	{"a stored spec", func() proto.Message { return &setpointv1.TargetSpec{} }, restjson.UnmarshalStored},
	{"a request", func() proto.Message { return &setpointv1.RecommendRequest{} }, restjson.Unmarshal},
	{"the spec itself", func() proto.Message { return &setpointv1.HorizontalPodAutoscalerSpec{} }, restjson.Unmarshal},
}

// formOf is the form that has most of the keys, the first of several; nil: none has one.
func formOf(keys map[string]json.RawMessage) *form {
	var best *form
	most := 0
	for i := range forms {
		known := 0
		fields := forms[i].message().ProtoReflect().Descriptor().Fields()
		for key := range keys {
			if fields.ByJSONName(key) != nil || fields.ByName(protoreflect.Name(key)) != nil {
				known++
			}
		}
		if known > most {
			best, most = &forms[i], known
		}
	}
	return best
}

// Other reads, for a dump, what has neither apiVersion nor kind as Read does. stored gets the spec of each
// object that it returns, as Autoscaler.Stored.
func Other(file string, stored map[*autoscalingv2.HorizontalPodAutoscaler]*setpointv1.TargetSpec) func([]byte) (*autoscalingv2.HorizontalPodAutoscaler, *setpointv1.RecommendOptions, error) {
	unnamed := 0
	return func(data []byte) (*autoscalingv2.HorizontalPodAutoscaler, *setpointv1.RecommendOptions, error) {
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(data, &keys); err != nil {
			return nil, nil, err
		}
		f := formOf(keys)
		if f == nil {
			return nil, nil, fmt.Errorf("is not an autoscaler: neither a manifest (with apiVersion and kind) nor a stored spec or a request (with spec) nor the spec itself (with maxReplicas); its keys are %s", list(keys))
		}
		looks := "looks like " + f.name + ": "
		message := f.message()
		var refused *restjson.Error
		if err := f.read(data, message); errors.As(err, &refused) {
			return nil, nil, errorOf(looks, refused.Violations)
		} else if err != nil {
			return nil, nil, err
		}
		out := &setpointv1.TargetSpec{}
		named := ""
		switch m := message.(type) {
		case *setpointv1.TargetSpec:
			m.Name = target.Whole(m.GetName())
			out, named = m, m.GetName()
		case *setpointv1.RecommendRequest:
			out.Spec, out.Options, out.Stages, named = m.GetSpec(), m.GetOptions(), m.GetStages(), target.Whole(m.GetTarget())
			out.Name = named
		case *setpointv1.HorizontalPodAutoscalerSpec:
			out.Spec = m
		}
		if out.Spec == nil {
			return nil, nil, errors.New(looks + "spec: Required value")
		}
		violations := check(out)
		if f == &forms[2] {
			for i := range violations {
				violations[i].Field = strings.TrimPrefix(violations[i].Field, "spec.")
			}
		}
		if err := errorOf(looks, violations); err != nil {
			return nil, nil, err
		}
		object := &autoscalingv2.HorizontalPodAutoscaler{
			TypeMeta: metav1.TypeMeta{APIVersion: autoscalingv2.SchemeGroupVersion.String(), Kind: "HorizontalPodAutoscaler"},
		}
		// The contract's spec has the JSON form of autoscaling/v2.
		inJSON, err := protojson.Marshal(out.GetSpec())
		if err == nil {
			err = json.Unmarshal(inJSON, &object.Spec)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s%w", looks, err)
		}
		if request, is := message.(*setpointv1.RecommendRequest); is && request.GetFleet() != "" {
			object.Annotations = map[string]string{autoscalingv1.FleetAnnotation: request.GetFleet()}
		}
		name, ok := target.Parse(named)
		if !ok {
			unnamed++
			name.Namespace, name.Target = "default", nameOf(file, unnamed)
		}
		object.Namespace, object.Name = name.Namespace, name.Target
		stored[object] = out
		return object, out.GetOptions(), nil
	}
}

// check judges a spec before it becomes an object of autoscaling/v2, which can't hold everything that is wrong; then it
// says all that is wrong with what is stored. Whether 0 replicas are allowed is left to Engine, which knows the options.
func check(stored *setpointv1.TargetSpec) []Violation {
	judge := func(at string, of, stages *setpointv1.TargetSpec, found []Violation) []Violation {
		options := &setpointv1.RecommendOptions{}
		proto.Merge(options, of.GetOptions())
		options.ScaleToZero = new(true)
		_, violations := fromMessages("", of.GetSpec(), options, stages, nil)
		for _, v := range violations {
			v.Field = at + v.Field
			found = append(found, v)
		}
		return found
	}
	violations := judge("", stored, nil, nil)
	if len(violations) == 0 {
		return nil
	}
	violations = judge("", stored, stored, append(violations, validation.Structure(stored)...))
	for i, shadow := range stored.GetShadows() {
		if shadow.GetSpec() != nil { // which the structure says
			of := &setpointv1.TargetSpec{Spec: shadow.GetSpec(), Options: shadow.GetOptions(), Stages: shadow.GetStages()}
			violations = judge(fmt.Sprintf("shadows[%d].", i), of, of, violations)
		}
	}
	return validation.Distinct(violations)
}

// nameOf names the nth object of a file that has no name: as the file, without its extension.
func nameOf(file string, n int) string {
	base := filepath.Base(file)
	name := strings.Map(func(r rune) rune {
		if r < 128 && target.IsSegment(string(r)+"x") {
			return r
		}
		return '-'
	}, strings.TrimSuffix(base, filepath.Ext(base)))
	if name = strings.Trim(name, ".-"); name == "" {
		name = "spec"
	}
	if n > 1 {
		name = fmt.Sprintf("%s-%d", name, n)
	}
	return name[:min(len(name), 253)]
}

// list is the first keys of an object.
func list(keys map[string]json.RawMessage) string {
	const most = 6
	all := slices.Sorted(maps.Keys(keys))
	text := fmt.Sprintf("%q", all[:min(len(all), most)])
	text = strings.ReplaceAll(strings.Trim(text, "[]"), `" "`, `", "`)
	switch {
	case len(all) == 0:
		return "none"
	case len(all) > most:
		return text + fmt.Sprintf(" and %d more", len(all)-most)
	}
	return text
}
