package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/lint"
	"github.com/setpoint-dev/setpoint/simulation"
)

// MaxChanges bounds the specs that are added, changed or removed.
const MaxChanges = 500

// What happens to a spec.
const (
	Added   = "added"
	Changed = "changed"
	Removed = "removed"
	// Same decides the same: only other things than the spec are changed.
	Same = "the same spec"
	// Around is Same as well, but not so the workload, or what else lint looks at.
	Around = "the same spec; its workload, or what is beside it, changes"
	// Beside is Same as well, but not so what is stored beside the spec, which is named after it.
	Beside = "the same spec; changed beside it: "
)

// Side are the specs before or after a change, with what is beside them.
type Side struct {
	linter *lint.Linter
	specs  []lint.Spec
	// files are those whose specs are compared, nil: all. beside are the specs of the others.
	files  map[string]bool
	beside []lint.Spec
	// places are the files that have each kind and name.
	places map[string][]string
}

// NewSide returns an empty one. options are the controller's settings as lint.Linter has them.
func NewSide(options func(own *setpointv1.RecommendOptions) *setpointv1.RecommendOptions) *Side {
	return &Side{linter: &lint.Linter{Options: options}}
}

// Read reads a file, of any objects, autoscalers among them.
func (s *Side) Read(name string, r io.Reader) error { return s.linter.Read(name, r) }

// ready gathers the specs.
func (s *Side) ready() {
	all := s.linter.Specs()
	s.places = make(map[string][]string)
	for _, spec := range all {
		named := spec.Kind + " " + identity(&spec)
		s.places[named] = append(s.places[named], spec.File)
		if s.files == nil || s.files[spec.File] {
			s.specs = append(s.specs, spec)
		} else {
			s.beside = append(s.beside, spec)
		}
	}
}

// engine is a spec as the engine takes it, or why the service would refuse it.
func (s *Side) engine(spec *lint.Spec) (*simulation.Autoscaler, error) {
	if spec.Err != nil {
		return nil, spec.Err
	}
	return spec.Engine(s.linter.Options(spec.Options()))
}

// optionsBeside are a spec's options, and the defaults of those that only the other one has: recorded are the other's.
func (s *Side) optionsBeside(spec, other *lint.Spec) *setpointv1.RecommendOptions {
	own := spec.Options()
	out, whole := proto.CloneOf(own), s.linter.Options(own).ProtoReflect()
	other.Options().ProtoReflect().Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if out == nil {
			out = &setpointv1.RecommendOptions{}
		}
		if m := out.ProtoReflect(); !m.Has(field) && whole.Has(field) {
			m.Set(field, whole.Get(field))
		}
		return true
	})
	return out
}

// change is a spec that a change adds, changes or removes.
type change struct {
	old, new *lint.Spec
	what     string
	// options and oldOptions are those that the new and the old spec are run with in place of the recorded ones.
	options, oldOptions *setpointv1.RecommendOptions
	// refused are why the new spec, or the old one, can't be run.
	refused, oldRefused error
	// none is why there is no history, lost whether the change itself may be to blame.
	none string
	lost bool
	// around reports whether the workload, or what else lint looks at, changes.
	around bool
	// beside are the fields of what is stored beside the spec that change.
	beside []string
}

// of is the spec that findings are about: the new one, or that which is removed.
func (c *change) of() *lint.Spec {
	if c.new != nil {
		return c.new
	}
	return c.old
}

// objectOf is namespace/name.
func objectOf(s *lint.Spec) string { return s.Object.Namespace + "/" + s.Object.Name }

// identity is what a spec is of: a target of a cluster, if it says so, else objectOf.
func identity(s *lint.Spec) string {
	if s.Named() {
		return s.Stored.GetName()
	}
	return objectOf(s)
}

// around adds the specs of files that do not change whose workload, or what else lint looks at, does.
func (s *Side) around(next *Side) {
	same := make(map[string]*lint.Spec)
	for i := range s.beside {
		spec := &s.beside[i]
		same[spec.File+" "+spec.Kind+" "+identity(spec)] = spec
	}
	for _, spec := range next.beside {
		if old := same[spec.File+" "+spec.Kind+" "+identity(&spec)]; old != nil && !alike(old, &spec) {
			s.specs, next.specs = append(s.specs, *old), append(next.specs, spec)
		}
	}
}

// alike reports whether lint looks at the same things beside two specs.
func alike(old, now *lint.Spec) bool {
	return reflect.DeepEqual(old.Workload, now.Workload) && reflect.DeepEqual(old.Beside, now.Beside)
}

// pair finds which old spec became which new one: of the same kind, cluster, namespace, name and file; then of another
// file; then of another cluster; then of another kind; then of another name that scales the same workload, with or without its namespace. If each side has one spec only they are a pair, whatever their names.
func (s *Side) pair(next *Side, alone bool) (changes []*change) {
	if alone && len(s.specs) == 1 && len(next.specs) == 1 {
		return s.compare(next, []*change{{old: &s.specs[0], new: &next.specs[0]}})
	}
	keys := []func(*lint.Spec) string{
		func(s *lint.Spec) string { return s.Kind + " " + identity(s) + " " + s.File },
		func(s *lint.Spec) string { return s.Kind + " " + identity(s) },
		func(s *lint.Spec) string { return s.Kind + " " + objectOf(s) + " " + s.File },
		func(s *lint.Spec) string { return s.Kind + " " + objectOf(s) },
		objectOf,
		func(s *lint.Spec) string { return workload(s, s.Object.Namespace) },
		func(s *lint.Spec) string { return workload(s, "") },
	}
	taken, partner := make([]bool, len(s.specs)), make([]*lint.Spec, len(next.specs))
	for _, key := range keys {
		free := make(map[string][]int)
		for i := range s.specs {
			if k := key(&s.specs[i]); !taken[i] && k != "" {
				free[k] = append(free[k], i)
			}
		}
		for i := range next.specs {
			if found := free[key(&next.specs[i])]; partner[i] == nil && len(found) > 0 {
				partner[i], taken[found[0]] = &s.specs[found[0]], true
				free[key(&next.specs[i])] = found[1:]
			}
		}
	}
	for i := range next.specs {
		changes = append(changes, &change{old: partner[i], new: &next.specs[i]})
	}
	for i := range s.specs {
		if !taken[i] {
			changes = append(changes, &change{old: &s.specs[i]})
		}
	}
	return s.compare(next, changes)
}

// workload is what a spec scales, empty: it does not say so.
func workload(s *lint.Spec, namespace string) string {
	ref := &s.Object.Spec.ScaleTargetRef
	if ref.Name == "" {
		return ""
	}
	return namespace + "/" + ref.Kind + "/" + ref.Name
}

// compare says what happens to each, and leaves out what does not change at all.
func (s *Side) compare(next *Side, all []*change) []*change {
	return slices.DeleteFunc(all, func(c *change) bool {
		switch {
		case c.new == nil:
			c.what = Removed
			return false
		case c.old == nil:
			c.what, c.options = Added, c.new.Options()
			_, c.refused = next.engine(c.new)
			return false
		}
		old, oldRefused := s.engine(c.old)
		now, refused := next.engine(c.new)
		c.refused, c.oldRefused = refused, oldRefused
		c.options, c.oldOptions = next.optionsBeside(c.new, c.old), s.optionsBeside(c.old, c.new)
		if c.what = Changed; refused == nil && oldRefused == nil && reflect.DeepEqual(old, now) &&
			c.old.Member == c.new.Member && proto.Equal(c.old.Stored.GetFleet(), c.new.Stored.GetFleet()) {
			c.what = Same
		}
		// Of files that the user named one side may have no workloads.
		c.around = !alike(c.old, c.new) && (s.files != nil || c.old.Workload != nil && c.new.Workload != nil)
		c.beside = besides(c.old, c.new)
		return c.what == Same && !c.around && len(c.beside) == 0 && c.old.File == c.new.File && c.old.Kind == c.new.Kind && objectOf(c.old) == objectOf(c.new) && reflect.DeepEqual(c.old.Object.Annotations, c.new.Object.Annotations)
	})
}

// apart are the fields of what is stored that are compared on their own, or are the service's.
var apart = []protoreflect.Name{"name", "spec", "options", "stages", "fleet", "etag", "create_time", "update_time", "updated_by", "hash"}

// queries is the field of which no recording knows what its new ones read.
const queries = "queries"

// besides are the names of all other fields that change.
func besides(old, now *lint.Spec) (names []string) {
	before, after := old.Stored.ProtoReflect(), now.Stored.ProtoReflect()
	fields := before.Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); !slices.Contains(apart, f.Name()) && !before.Get(f).Equal(after.Get(f)) {
			names = append(names, f.JSONName())
		}
	}
	if old.Shadow != now.Shadow {
		names = append(names, "shadow")
	}
	return names
}

// head is what tells documents apart.
type head struct {
	APIVersion     string          `json:"apiVersion"`
	Kind           string          `json:"kind"`
	MaxReplicas    json.RawMessage `json:"maxReplicas"`
	ScaleTargetRef json.RawMessage `json:"scaleTargetRef"`
	Spec           json.RawMessage `json:"spec"`
}

// mayHaveSpec reports whether a file may have an autoscaler.
func mayHaveSpec(content []byte) bool {
	return bytes.Contains(content, []byte("maxReplicas")) || bytes.Contains(content, []byte("HorizontalPodAutoscaler"))
}

// scaling are words of objects and settings that scale something.
var scaling = regexp.MustCompile(`(?i)m(ax|in)_?replica|HorizontalPodAutoscaler|ScaledObject|ScaledJob|autoscaling\.setpoint\.dev`)

// mayScale reports whether a text may scale something, also in UTF-16.
func mayScale(content []byte) bool {
	return scaling.Match(bytes.ReplaceAll(content, []byte{0}, nil))
}

// errTemplate is about a file that has to be rendered first.
var errTemplate = errors.New("is a template, which must be rendered first")

// errNoObject is about a file of bare texts only, such as the pointer that Git LFS leaves of one.
var errNoObject = errors.New("it has no object")

// sifted returns a file of a repository with the documents that are manifests or stored specs; blank lines
// are in place of the others, so that lines stay what they are; nil: there is none of these. loose: one of them may be something else than a
// stored spec. notes tell of documents that are left out and may be an autoscaler. beside: one of the others may
// scale something.
func sifted(content []byte) (out []byte, loose, beside bool, notes []error, err error) {
	parts, err := document.Manifests(content)
	if err != nil {
		return nil, false, false, nil, templateOr(content, err)
	}
	out = bytes.Clone(content)
	bare, kept := 0, 0
	for _, part := range parts {
		converted, err := document.ManifestIn(content, part)
		if err != nil {
			return nil, false, false, nil, templateOr(content, err)
		}
		if !bytes.ContainsAny(converted[:1], "{[n") {
			bare++
		}
		begin := cap(content) - cap(part)
		keep, named, spec, note := wanted(converted)
		beside = beside || !spec && note == nil && mayScale(part)
		loose = loose || keep && !named
		if note != nil {
			notes = append(notes, fmt.Errorf("line %d: %w", 1+bytes.Count(content[:begin], []byte("\n")), note))
		}
		if keep {
			kept++
			continue
		}
		for i := begin; i < begin+len(part); i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	if bare > 0 && bare == len(parts) {
		return nil, false, beside, nil, errNoObject
	}
	if kept == 0 {
		out = nil
	}
	return out, loose, beside, notes, nil
}

func templateOr(content []byte, err error) error {
	if bytes.Contains(content, []byte("{{")) {
		return errTemplate
	}
	return err
}

// wanted reports whether a document is read, whether it says itself what it is, and whether it is a spec, or a list.
func wanted(data []byte) (keep, named, spec bool, note error) {
	var h head
	if json.Unmarshal(data, &h) != nil {
		return false, false, false, nil // it is no object
	}
	var inner head
	_ = json.Unmarshal(h.Spec, &inner) // anything may be there
	switch {
	case h.APIVersion == "" && h.Kind == "":
		keep = h.MaxReplicas != nil || inner.MaxReplicas != nil
		return keep, false, keep, nil
	case h.Kind == "HorizontalPodAutoscaler", h.Kind == "Autoscaler" && strings.HasPrefix(h.APIVersion, "autoscaling.setpoint.dev/"):
		for _, field := range []struct {
			name  string
			value json.RawMessage
		}{{"maxReplicas", inner.MaxReplicas}, {"scaleTargetRef", inner.ScaleTargetRef}} {
			if field.value == nil {
				return false, true, false, fmt.Errorf("has no spec.%s, as a patch of Kustomize", field.name)
			}
		}
	}
	own := h.Kind == "HorizontalPodAutoscaler" || h.Kind == "Autoscaler" || strings.HasSuffix(h.Kind, "List")
	return h.APIVersion != "" && h.Kind != "", true, own, nil
}
