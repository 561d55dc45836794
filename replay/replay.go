// Package replay runs recordings through the recommender, step by step, and compares the
// outcome of each step with the recorded one.
package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/stages"
)

// Backend answers requests: the engine in this process, or a server.
type Backend interface {
	Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error)
	ReportScale(ctx context.Context, req *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error)
	// Delete deletes a target; deleting an unknown one is no error.
	Delete(ctx context.Context, target string) error
}

// Overrider is a backend that can put overrides in force.
type Overrider interface {
	// Override replaces the overrides of a target's next decision.
	Override(target string, overrides []stages.Override)
}

// ErrOverridden is wrapped in the error for a step that an override decided, if the backend can't put any
// in force.
var ErrOverridden = errors.New("an override was in force, which a replay sets at no server; replay it without --server")

// Beginner is a backend that can set a target's history.
type Beginner interface {
	// Begin sets the history of a new target.
	Begin(target string, history *recording.History)
}

// ErrHistory is wrapped in the error for a scenario that begins with a history, if the backend
// can't set one.
var ErrHistory = errors.New("the scenario begins with a history, which a server does not accept; replay it without --server")

// Step is the result of one step.
type Step struct {
	Scenario *recording.Scenario
	// Index of the step in the scenario, from 0.
	Index int
	// Response and Report are nil if nothing was requested or reported.
	Response *setpointv1.RecommendResponse
	Report   *setpointv1.ReportScaleResponse
	Outcome  recording.Outcome
	// Compared reports whether the recording has an expectation that was compared; Differences
	// are the deviations.
	Compared    bool
	Differences []recording.Difference
}

// Options are the settings of a Runner. The zero value replays as recorded.
type Options struct {
	// Spec replaces that of the recordings, and Stages their stages, nil: none; nothing is compared then. SpecOptions replace
	// those of their options that they set.
	// Overrides are in force as they were recorded, and a change counts if it was made: by the recording, or the next count.
	Spec        *autoscalingv2.HorizontalPodAutoscalerSpec
	Stages      *setpointv1.Stages
	SpecOptions *setpointv1.RecommendOptions
	// NoCompare disables comparisons.
	NoCompare bool
	// keeps leaves the target as it is in the end, and goesOn begins with the one that was left.
	keeps, goesOn bool
	// Cluster is the prefix of the clusters of the replay's targets, which it deletes, one per
	// scenario. Empty: "replay".
	Cluster string
}

// Runner replays scenarios. Not safe for concurrent use.
type Runner struct {
	backend Backend
	options Options
	run     int
}

// NewRunner returns a runner on the backend.
func NewRunner(backend Backend, options Options) *Runner {
	options.Cluster = cmp.Or(options.Cluster, "replay")
	return &Runner{backend: backend, options: options}
}

// deletePatience bounds the deletion of the target of a replay that was interrupted.
const deletePatience = 5 * time.Second

// Run replays a scenario on its own target, which it deletes in the end, and passes each step
// to visit. The first error stops it: a step that can't be converted, a backend's refusal, or
// visit's own. [EndsAll] reports whether it would stop other scenarios, too.
func (r *Runner) Run(ctx context.Context, scenario *recording.Scenario, visit func(*Step) error) (err error) {
	r.run++
	player := recording.NewPlayer(scenario)
	if r.options.Spec != nil {
		player = player.WithSpec(r.options.Spec, r.options.Stages, r.options.SpecOptions)
	}
	cluster := r.options.Cluster + "-" + strconv.Itoa(r.run)
	target := ""
	defer func() {
		if target == "" || r.options.keeps {
			return
		}
		if ctx.Err() != nil { // it was interrupted, and leaves nothing all the same
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), deletePatience)
			defer cancel()
			ctx = within
		}
		if deleteErr := r.backend.Delete(ctx, target); err == nil {
			err = deleteErr
		}
	}()
	for i := range scenario.Steps {
		req, err := player.Request(&scenario.Steps[i], cluster)
		if err != nil {
			return err
		}
		step := &Step{Scenario: scenario, Index: i}
		if req == nil {
			err = r.forget(ctx, &target)
		} else {
			if i == 0 && !r.options.goesOn {
				err = r.begin(req.GetTarget(), scenario)
			}
			if target = req.GetTarget(); err == nil {
				err = r.override(target, overridesOf(&scenario.Steps[i]))
			}
			if err == nil {
				err = r.sum(target, &scenario.Steps[i])
			}
			if err == nil {
				err = r.ask(ctx, step, req)
			}
		}
		if err != nil {
			return fmt.Errorf("%s, step %d: %w", scenario.Name, i+1, err)
		}
		r.compare(step)
		if err := visit(step); err != nil {
			return visitError{err}
		}
	}
	return nil
}

// visitError is an error of the visitor.
type visitError struct{ error }

func (e visitError) Unwrap() error { return e.error }

// EndsAll reports whether an error of Run is not specific to the scenario: the visitor failed,
// the replay was cancelled, or the server is away or refuses everything.
func EndsAll(err error) bool {
	var visit visitError
	if errors.As(err, &visit) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var remote interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &remote) {
		return false
	}
	switch remote.GRPCStatus().Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return true
	}
	return false
}

// override puts the overrides of a step in force.
func (r *Runner) override(target string, overrides []stages.Override) error {
	backend, ok := r.backend.(Overrider)
	switch {
	case ok:
		backend.Override(target, overrides)
	case len(overrides) > 0:
		return ErrOverridden
	}
	return nil
}

// sum sets the sums of a step.
func (r *Runner) sum(target string, step *recording.Step) error {
	backend, ok := r.backend.(Summer)
	switch {
	case ok:
		backend.Sum(target, step.Request, step.Sums)
	case step.Sums != nil:
		return ErrSums
	}
	return nil
}

// begin sets the target's history from the scenario.
func (r *Runner) begin(target string, scenario *recording.Scenario) error {
	if scenario.State != nil {
		backend, ok := r.backend.(Summer)
		if !ok {
			return ErrSums
		}
		return backend.BeginState(target, scenario.State)
	}
	if scenario.History == nil {
		return nil
	}
	backend, ok := r.backend.(Beginner)
	if !ok {
		return ErrHistory
	}
	backend.Begin(target, scenario.History)
	return nil
}

// forget is a step at which the autoscaler is deleted.
func (r *Runner) forget(ctx context.Context, target *string) error {
	if *target == "" {
		return nil
	}
	err := r.backend.Delete(ctx, *target)
	*target = ""
	return err
}

// ask requests a recommendation, and reports the recorded result of applying it.
func (r *Runner) ask(ctx context.Context, step *Step, req *setpointv1.RecommendRequest) (err error) {
	req.Explain = false // nobody reads it
	if step.Response, err = r.backend.Recommend(ctx, req); err != nil {
		return err
	}
	failure := step.Scenario.Steps[step.Index].ScaleUpdateError
	if step.Response.GetDesiredReplicas() != step.Response.GetCurrentReplicas() && r.reports(step) {
		report := &setpointv1.ReportScaleRequest{
			Target: req.GetTarget(), RecommendationId: step.Response.GetRecommendationId(),
			Outcome: "APPLIED", Message: failure,
		}
		if failure != "" {
			report.Outcome = "FAILED"
		}
		if step.Report, err = r.backend.ReportScale(ctx, report); err != nil {
			return err
		}
	}
	step.Outcome = recording.OutcomeOf(step.Response, step.Report, failure == "")
	if step.Scenario.Steps[step.Index].Sums != nil { // the service keeps the status of the answer
		step.Outcome.Status, step.Outcome.Error = step.Response.GetStatus(), step.Response.GetError()
	}
	return nil
}

// reports reports whether it is recorded what came of the step's change. Of another spec's that is the case only if it was
// made; as of a shadow's, nothing is reported of others, and the engine settles them by the next count.
func (r *Runner) reports(step *Step) bool {
	recorded := &step.Scenario.Steps[step.Index]
	if r.options.Spec == nil {
		return !recorded.Unreported
	}
	return recorded.Expect != nil && recorded.Expect.Scaled && recorded.Expect.ScaledTo == step.Response.GetDesiredReplicas()
}

func (r *Runner) compare(step *Step) {
	recorded := &step.Scenario.Steps[step.Index]
	if !recorded.Compares() || r.options.Spec != nil || r.options.NoCompare {
		return
	}
	step.Compared = true
	step.Differences = recorded.Differences(step.Outcome)
}
