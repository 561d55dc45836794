package states

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/recommender"
)

// reasons are the constants of the engine that are reasons of conditions: those of a type, or those of
// the first block of reasons.go.
func reasons(t *testing.T, file, typed string) (all []string) {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), "../../recommender/"+file, nil, 0)
	fatal.If(t, err)
	for _, decl := range tree.Decls {
		block, ok := decl.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		for _, spec := range block.Specs {
			value := spec.(*ast.ValueSpec)
			kind, _ := value.Type.(*ast.Ident)
			if len(value.Values) == 0 {
				continue
			}
			if literal, ok := value.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING && (typed == "" || kind != nil && kind.Name == typed) {
				text, err := strconv.Unquote(literal.Value)
				fatal.If(t, err)
				all = append(all, text)
			}
		}
		if typed == "" {
			break
		}
	}
	if len(all) < 3 {
		t.Fatalf("%s has the reasons %q", file, all)
	}
	return all
}

func TestEachReasonHasItsState(t *testing.T) {
	t.Parallel()
	conditions := slices.Concat(reasons(t, "reasons.go", ""), reasons(t, "input.go", "SelectorReason"), reasons(t, "ratelimit.go", "LimitReason"))
	known := 0
	for _, reason := range conditions {
		if reason == recommender.NotScaledToZero { // of a condition that says what was done
			continue
		}
		in := 0
		for _, table := range []map[string]State{ofAbleToScale, ofScalingActive, ofScalingLimited} {
			if _, ok := table[reason]; ok {
				in++
			}
		}
		if known++; in != 1 {
			t.Errorf("%s is in %d of the tables, want 1", reason, in)
		}
	}
	if all := len(ofAbleToScale) + len(ofScalingActive) + len(ofScalingLimited); all != known {
		t.Errorf("the tables have %d reasons, the engine %d", all, known)
	}
}

func TestTheContractNamesEachState(t *testing.T) {
	t.Parallel()
	contract := testpages.Read(t, "../../proto/setpoint/v1/target_service.proto")
	for state := range count {
		if !strings.Contains(contract, strconv.Quote(state.String())) {
			t.Errorf("target_service.proto does not name %s", state)
		}
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	const able, active = recommender.ReadyForNewScale, recommender.ValidMetricFound
	for _, tt := range []struct {
		name  string
		facts Facts
		want  string
	}{
		{"nothing is known", Facts{}, ""},
		{"steady", Facts{Able: able, Active: active, Limited: "DesiredWithinRange"}, ""},
		{"wants more than the maximum", Facts{Able: able, Active: active, Limited: "TooManyReplicas"}, "AT_MAXIMUM"},
		{"wants fewer than the minimum", Facts{Able: able, Active: active, Limited: "TooFewReplicas"}, "AT_MINIMUM"},
		{"a policy", Facts{Able: recommender.SucceededRescale, Active: active, Limited: "ScaleDownLimit"}, "LIMITED"},
		{"a window, at the maximum", Facts{Able: recommender.ScaleDownStabilized, Active: active, Limited: "TooManyReplicas"}, "AT_MAXIMUM HELD"},
		{"one of two metrics fails, and the other asks for more than the maximum", Facts{Able: able, Active: active, Limited: "TooManyReplicas", FailedMetric: true}, "METRICS_FAILING AT_MAXIMUM"},
		{"all metrics fail; the limit is of an earlier decision", Facts{Able: recommender.SucceededGetScale, Active: recommender.FailedGetPodsMetric, Limited: "TooManyReplicas"}, "METRICS_FAILING"},
		{"no scale; all else is of an earlier decision", Facts{Able: recommender.FailedGetScale, Active: recommender.FailedGetPodsMetric, Limited: "TooManyReplicas", FailedMetric: true}, "SCALE_UNREADABLE"},
		{"a refused write is no failing metric", Facts{Able: recommender.FailedUpdateScale, Active: active, Limited: "ScaleUpLimit"}, "UPDATE_FAILED LIMITED"},
		{"a refused write of a bound; metrics were not looked at", Facts{Able: recommender.FailedUpdateScale, Active: recommender.FailedGetObjectMetric, Limited: "TooManyReplicas", Reason: recommender.AboveMaxReplicas}, "UPDATE_FAILED"},
		{"a bound enforced from below; metrics were not looked at", Facts{Able: recommender.SucceededRescale, Active: recommender.FailedGetObjectMetric, Limited: "TooFewReplicas", Reason: recommender.BelowMinReplicas}, ""},
		{"an override, and what it holds", Facts{Able: able, Active: active, Limited: "TooManyReplicas", Overridden: true}, "OVERRIDDEN AT_MAXIMUM"},
		{"an override while the metrics fail", Facts{Able: recommender.SucceededGetScale, Active: recommender.FailedGetPodsMetric, Overridden: true}, "METRICS_FAILING OVERRIDDEN"},
		{"at zero", Facts{Able: recommender.SucceededGetScale, Active: recommender.ScalingDisabled, Limited: "TooManyReplicas"}, "DISABLED"},
		{"a selector", Facts{Able: recommender.SucceededGetScale, Active: "AmbiguousSelector"}, "INVALID"},
		{"a metric of no known type", Facts{Able: recommender.SucceededGetScale, Active: recommender.InvalidMetricSourceType}, "INVALID"},
		{"a reason of another controller", Facts{Able: "Other", Active: "Other", Limited: "Other"}, ""},
		{"design-2015 without metrics", Facts{Error: "failed to compute desired number of replicas based on CPU utilization for x: y"}, "METRICS_FAILING"},
		{"design-2015 without one of two metrics", Facts{FailedMetric: true}, "METRICS_FAILING"},
		{"design-2015 without a scale", Facts{Error: "failed to query scale subresource for x: y"}, "SCALE_UNREADABLE"},
	} {
		if got := strings.Join(tt.facts.Of().Words(), " "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
