package playground

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/simulation"
)

// Kinds of manifests.
const (
	horizontalPodAutoscaler = "HorizontalPodAutoscaler"
	autoscaler              = "Autoscaler"

	apiOfHPA        = "autoscaling/v2"
	apiOfAutoscaler = "autoscaling.setpoint.dev/v1"
)

// spec is a manifest as read.
type spec struct {
	name, object, namespace string
	text                    string
	message                 *setpointv1.HorizontalPodAutoscalerSpec
	options                 *setpointv1.RecommendOptions
	autoscaler              *simulation.Autoscaler
	// stages are nil where there are none; stagesAt is their path. annotation are those of an HPA.
	stages     *setpointv1.Stages
	stagesAt   string
	annotation *document.Value
	// beside are the stages of a stored spec or a request.
	beside document.Value
	// fields of the spec as they are in the document, and whether it is an Autoscaler's.
	fields map[string]document.Value
	own    bool
	// manifest reports whether it is a cluster's object.
	manifest bool
	lines    document.LineNumbers
}

// read reads a manifest: a HorizontalPodAutoscaler of autoscaling/v2, or an Autoscaler. A
// document without apiVersion and kind is a stored spec or a request, whose spec is used, or the
// spec itself. The API's rules check values elsewhere.
func (s *spec) read(data []byte) error {
	s.text, s.namespace, s.object = string(data), "default", ""
	s.message = &setpointv1.HorizontalPodAutoscalerSpec{}
	s.lines = document.Lines(data)
	return document.Read(s.name, data, func(root document.Value) {
		if s.unnamed(root) {
			return
		}
		kind, api := "", ""
		var body document.Value
		found := false
		root.Map(
			document.Required("apiVersion", func(v document.Value) { api, _ = v.Text() }),
			document.Required("kind", func(v document.Value) {
				if kind, _ = v.Text(); kind != horizontalPodAutoscaler && kind != autoscaler {
					v.Refuse("must be %s or %s", horizontalPodAutoscaler, autoscaler)
				}
			}),
			document.Optional("metadata", s.metadata),
			document.Required("spec", func(v document.Value) { body, found = v, true }),
			document.Optional("status", func(document.Value) {}),
		)
		want := map[string]string{horizontalPodAutoscaler: apiOfHPA, autoscaler: apiOfAutoscaler}[kind]
		if want != "" && api != want {
			root.Refuse("apiVersion: must be %s", want)
		}
		s.manifest = true
		if found {
			s.specOf(body, kind == autoscaler)
		}
		if s.annotation != nil && kind == horizontalPodAutoscaler {
			s.annotated(*s.annotation)
		}
	})
}

// unnamed reads a document without apiVersion and kind, and reports whether it is one.
func (s *spec) unnamed(root document.Value) bool {
	parts := make(map[string]document.Value)
	root.Entries(func(key string, _, value document.Value) { parts[key] = value })
	for _, key := range []string{"apiVersion", "kind"} {
		if _, manifest := parts[key]; manifest {
			return false
		}
	}
	body, wrapped := parts["spec"]
	_, bare := parts["maxReplicas"]
	if stages, given := parts["stages"]; given && wrapped {
		s.beside = stages
		s.stagesOf(stages)
	}
	if of, given := parts["fleet"]; given && wrapped {
		inFleet(of)
	}
	if wrapped {
		var fields []document.Field
		for _, message := range []any{&setpointv1.TargetSpec{}, &setpointv1.RecommendRequest{}} {
			for _, f := range (reader{}).of(message) {
				fields = append(fields, f.Unread())
			}
		}
		root.Map(fields...)
	}
	if options, given := parts["options"]; given && wrapped {
		s.options = &setpointv1.RecommendOptions{}
		reader{seconds: true}.message(options, s.options)
	}
	switch {
	case wrapped:
		s.specOf(body, false)
	case bare:
		s.specOf(root, false)
		s.lines.Under("spec")
	}
	return wrapped || bare
}

func (s *spec) metadata(v document.Value) {
	v.Entries(func(key string, _, value document.Value) {
		switch key {
		case "name":
			s.object, _ = value.Text()
		case "namespace":
			s.namespace, _ = value.Text()
		case "annotations":
			value.Entries(func(key string, _, value document.Value) {
				switch key {
				case stagesAnnotation:
					s.annotation = &value
				case fleetAnnotation:
					inFleet(value)
				}
			})
		}
	})
}

// fleetAnnotation names the fleet of a HorizontalPodAutoscaler.
const fleetAnnotation = "setpoint.dev/fleet"

// inFleet refuses what makes a workload a fleet or one of its members: here one cluster decides alone.
func inFleet(v document.Value) {
	v.Refuse("is of a fleet, which is not run here: leave it out to see the workload alone, or run the fleet with setpoint simulate")
}

func (s *spec) specOf(v document.Value, own bool) {
	s.fields, s.own = make(map[string]document.Value), own
	fields := reader{}.of(s.message)
	v.Entries(func(key string, _, value document.Value) { s.fields[key] = value })
	if own {
		fields = append(fields,
			document.Optional("syncPeriodSeconds", func(v document.Value) { v.Int(1, 3600) }),
			document.Optional("shadow", func(v document.Value) { v.Bool() }),
			document.Optional("options", s.optionsOf),
			document.Optional("stages", s.stagesOf),
			document.Optional("fleet", inFleet),
		)
	}
	v.Map(fields...)
}

// optionsOf reads an Autoscaler's options.
func (s *spec) optionsOf(v document.Value) {
	o := &setpointv1.RecommendOptions{}
	s.options = o
	seconds := func(to **durationpb.Duration) func(document.Value) {
		return func(v document.Value) {
			if n, ok := v.Int(0, 1<<31-1); ok {
				*to = durationpb.New(time.Duration(n) * time.Second)
			}
		}
	}
	v.Map(
		document.Optional("profile", func(v document.Value) { o.Profile, _ = v.TextOrEmpty() }),
		document.Optional("tolerance", func(v document.Value) {
			if text, ok := v.Raw(); ok {
				o.Tolerance = &text
			}
		}),
		document.Optional("cpuInitializationPeriodSeconds", seconds(&o.CpuInitializationPeriod)),
		document.Optional("initialReadinessDelaySeconds", seconds(&o.InitialReadinessDelay)),
		document.Optional("downscaleStabilizationSeconds", seconds(&o.DownscaleStabilization)),
		document.Optional("upscaleDelaySeconds", seconds(&o.UpscaleDelay)),
		document.Optional("downscaleDelaySeconds", seconds(&o.DownscaleDelay)),
		document.Optional("scaleToZero", func(v document.Value) {
			if b, ok := v.Bool(); ok {
				o.ScaleToZero = &b
			}
		}),
	)
}

// export writes the first spec as a manifest of a kind: its own text, with the two lines that
// name the kind. An HPA leaves out what autoscaling/v2 does not have.
func (a *asked) export(kind string) answer {
	if len(a.problems) > 0 || len(a.specs) == 0 || a.specs[0].autoscaler == nil {
		return answer{Problems: a.problems}
	}
	s := a.specs[0]
	api := map[string]string{horizontalPodAutoscaler: apiOfHPA, autoscaler: apiOfAutoscaler}[kind]
	own := []string{"spec.syncPeriodSeconds", "spec.shadow", "spec.options"}
	if why := s.misplaced(kind); why != "" {
		return answer{Problems: []Problem{{In: s.name, Line: s.lines.Of(s.stagesAt), Path: s.stagesAt, Text: why}}}
	}
	lines := strings.Split(strings.TrimRight(s.text, "\n"), "\n")
	if s.lines["kind"] == 0 {
		return answer{Problems: []Problem{{In: s.name, Text: "is not a manifest: begin with apiVersion, kind, metadata and spec to export it as another kind"}}}
	}
	if strings.HasPrefix(strings.TrimSpace(s.text), "{") {
		return answer{Problems: []Problem{{In: s.name, Text: "is written as JSON: write it as YAML to export it as another kind"}}}
	}
	drop := make(map[int]bool)
	if kind == horizontalPodAutoscaler {
		for _, path := range own {
			first, is := s.lines[path]
			if !is {
				continue
			}
			last := first
			for p, line := range s.lines {
				if strings.HasPrefix(p, path+".") {
					last = max(last, line)
				}
			}
			for p, line := range s.lines {
				if line >= first && line <= last && p != path && !strings.HasPrefix(p, path+".") {
					return answer{Problems: []Problem{{In: s.name, Line: first, Path: path, Text: path + " shares its line with others: write it on lines of its own to export it as another kind"}}}
				}
			}
			for line := first; line <= last; line++ {
				drop[line] = true
			}
		}
	}
	var out strings.Builder
	for i, line := range lines {
		switch {
		case drop[i+1]:
			continue
		case i+1 == s.lines["apiVersion"]:
			line = "apiVersion: " + api
		case i+1 == s.lines["kind"]:
			line = "kind: " + kind
		}
		fmt.Fprintln(&out, line)
	}
	return answer{Export: out.String()}
}
