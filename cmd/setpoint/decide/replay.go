//go:build !service

package decide

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/connection"
	"github.com/setpoint-dev/setpoint/cmd/internal/specfile"
	"github.com/setpoint-dev/setpoint/explain"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/replay"
	"github.com/setpoint-dev/setpoint/server/restjson"
)

// replayPatience is how long one attempt of a call may take. A report that is sent again because its answer took long
// is answered without its event, which would count as a difference.
const replayPatience = time.Minute

// replayCommand has the flags and the results of setpoint replay.
type replayCommand struct {
	server    *connection.Settings
	spec      string
	quiet     bool
	noCompare bool
	strict    bool
	output    *cli.OutputFlag

	summary replaySummary
	bar     *cli.Progress
}

// replaySummary is the last line of -o json. Steps is the sum of ComparedSteps and
// SkippedSteps: a step without an expectation is skipped.
type replaySummary struct {
	// Scenarios counts all scenarios, including failed ones and those without steps.
	Scenarios int `json:"scenarios"`
	// Steps counts the decided steps.
	Steps           int `json:"steps"`
	MismatchedSteps int `json:"mismatchedSteps"`
	ComparedSteps   int `json:"comparedSteps"`
	SkippedSteps    int `json:"skippedSteps"`
	// SkippedScenarios have no steps.
	SkippedScenarios int `json:"skippedScenarios"`
	// RefusedScenarios were refused by a server with INVALID_ARGUMENT; FailedScenarios could
	// not be replayed to their end for other reasons.
	RefusedScenarios int `json:"refusedScenarios"`
	FailedScenarios  int `json:"failedScenarios"`
	// UnreadableLines are not scenarios; a truncated file has one, and so has a file without
	// any scenario.
	UnreadableLines int `json:"unreadableLines"`
}

// replayLine is a line of -o json: one step.
type replayLine struct {
	Scenario    string                 `json:"scenario"`
	Step        int                    `json:"step"`
	Time        time.Time              `json:"time"`
	Response    json.RawMessage        `json:"response,omitempty"`
	Report      json.RawMessage        `json:"report,omitempty"`
	Compared    bool                   `json:"compared"`
	Differences []recording.Difference `json:"differences,omitempty"`
}

func newReplay() *cobra.Command {
	c := &replayCommand{output: cli.NewOutputFlag(cli.AsText, cli.AsJSON)}
	cmd := &cobra.Command{
		Use:   "replay FILE...",
		Short: "Replay recordings and compare with what they expect",
		Long: `Replay recordings step by step, print each decision, and compare it with what the
recording expects. A step without an expectation is skipped: decided and
printed, but not compared. Errors in one scenario are printed, and the others go
on.

Exits with 1 if a step differs, a scenario failed, or nothing was compared (unless
--no-compare or --spec is given); with 2 if only the input was invalid: a line that
is not a scenario, a truncated or empty file, or a scenario that the server refuses.

Without a server the recommender itself decides, also for specs that the service
would refuse. A server must have been started with --allow-evaluation-time; each
scenario gets a target of its own there, which is deleted afterwards.`,
		Example: "  setpoint replay recording.jsonl.gz\n  setpoint replay --spec new-hpa.yaml production.jsonl\n  setpoint replay -o json --server 127.0.0.1:9090 recording.jsonl | tail -n 1  # a server with --allow-evaluation-time",
		Args:    cobra.MinimumNArgs(1),
		RunE:    c.run,
	}
	c.server = connection.Bind(cmd.PersistentFlags(), "", "the server that decides (default: this process decides; SETPOINT_SERVER does not count)")
	// What the variable names serves workloads: only who names a server here has it make decisions of the past.
	c.server.Server, cmd.PersistentFlags().Lookup("server").DefValue = "", ""
	cmd.Flags().StringVar(&c.spec, "spec", "", "`file` of a HorizontalPodAutoscaler whose spec replaces the recorded ones; disables comparison")
	cmd.Flags().BoolVar(&c.noCompare, "no-compare", false, "only decide and print; do not compare with what the recordings expect")
	cmd.Flags().BoolVar(&c.strict, "strict", false, "exit with 1 also if a step or a scenario was skipped, so success means that everything was compared")
	cmd.MarkFlagsMutuallyExclusive("no-compare", "strict")
	cmd.MarkFlagsMutuallyExclusive("spec", "strict")
	cmd.Flags().BoolVarP(&c.quiet, "quiet", "q", false, "print only steps that differ, and the summary")
	cmd.Flags().VarP(c.output, "output", "o", "form of the output: text or json (lines)")
	return cmd
}

func (c *replayCommand) run(cmd *cobra.Command, files []string) error {
	options := replay.Options{NoCompare: c.noCompare}
	if c.spec != "" {
		spec, err := specfile.Replacing(cmd, c.spec)
		if err != nil {
			return err
		}
		kubernetes.Defaults(spec.Object)
		options.Spec, options.Stages, options.SpecOptions = &spec.Object.Spec, spec.Stages(), spec.Options()
	}
	var backend replay.Backend = replay.NewEngine()
	if c.server.Server != "" {
		client, err := c.server.Dial(setpoint.WithRetry(setpoint.Retry{AttemptTimeout: replayPatience}))
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		backend = replay.NewServer(client.Conn())
		// Two replays on one server must use different targets.
		options.Cluster = fmt.Sprintf("replay-%d-%d", os.Getpid(), time.Now().UnixNano())
	}
	runner := replay.NewRunner(backend, options)
	for _, name := range files {
		if err := c.file(cmd, runner, name); err != nil {
			c.bar.Clear()
			return err
		}
	}
	c.bar.Clear()
	return c.finish(cmd.OutOrStdout())
}

// maxUnreadable bounds the lines of a file that are complained of one by one: any file may be given.
const maxUnreadable = 10

// file replays the scenarios of one file. An error stops the whole replay; problems of a line
// or a scenario are printed, and the next one is tried.
func (c *replayCommand) file(cmd *cobra.Command, runner *replay.Runner, name string) error {
	file, err := cli.Open(cmd, name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	in := c.watch(cmd, file, name)
	tell := func(format string, args ...any) {
		c.bar.Clear()
		fmt.Fprintln(cmd.ErrOrStderr(), "setpoint: "+printable.Block(fmt.Sprintf(format, args...)))
	}
	seen := make(map[string]bool)
	read, unread := false, 0
	var last error
	for scenario, err := range recording.NewReader(name, in).All() {
		read = true
		if ended := cmd.Context().Err(); ended != nil {
			return ended
		}
		if err != nil {
			c.summary.UnreadableLines++
			if unread++; unread <= maxUnreadable {
				tell("%v", err)
			}
			last = err
			continue
		}
		c.summary.Scenarios++
		switch {
		case seen[scenario.Name]:
			c.summary.FailedScenarios++
			tell("%s: failed: %s: the name must be unique in the file", name, scenario.Name)
			continue
		case len(scenario.Steps) == 0:
			c.summary.SkippedScenarios++
			tell("%s: skipped: %s: has no steps", name, scenario.Name)
		}
		seen[scenario.Name] = true
		if err := c.scenario(cmd, runner, scenario, name, tell); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if more := unread - maxUnreadable; more > 0 {
		tell("… and %d more lines that can't be read, the last: %v", more, last)
	}
	if !read {
		c.summary.UnreadableLines++
		tell("%s: holds no scenario", name)
	}
	return nil
}

// scenario replays a scenario. A failure does not stop the others.
func (c *replayCommand) scenario(cmd *cobra.Command, runner *replay.Runner, scenario *recording.Scenario, name string, tell func(string, ...any)) error {
	err := runner.Run(cmd.Context(), scenario, func(step *replay.Step) error { return c.step(cmd.OutOrStdout(), step) })
	switch {
	case err == nil:
	case replay.EndsAll(err):
		return err
	case status.Code(errors.Unwrap(err)) == codes.InvalidArgument:
		c.summary.RefusedScenarios++
		tell("%s: refused: %v", name, err)
	default:
		c.summary.FailedScenarios++
		tell("%s: failed: %v", name, err)
	}
	return nil
}

// watch shows the progress of reading a file.
func (c *replayCommand) watch(cmd *cobra.Command, file io.Reader, name string) io.Reader {
	c.bar = nil
	if f, isFile := file.(*os.File); isFile {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			c.bar = cli.NewProgress(cmd.ErrOrStderr(), name, info.Size())
		}
	}
	return c.bar.Reader(file)
}

// step counts and prints one step.
func (c *replayCommand) step(w io.Writer, step *replay.Step) error {
	c.summary.Steps++
	if step.Compared {
		c.summary.ComparedSteps++
	} else {
		c.summary.SkippedSteps++
	}
	if len(step.Differences) > 0 {
		c.summary.MismatchedSteps++
	} else if c.quiet {
		return nil
	}
	c.bar.Clear()
	if c.output.Form == cli.AsJSON {
		return c.stepJSON(w, step)
	}
	return c.stepText(w, step)
}

func (c *replayCommand) stepJSON(w io.Writer, step *replay.Step) (err error) {
	line := replayLine{
		Scenario: step.Scenario.Name, Step: step.Index + 1, Time: step.Scenario.Steps[step.Index].Time,
		Compared: step.Compared, Differences: step.Differences,
	}
	marshaler := &restjson.Marshaler{}
	if step.Response != nil {
		if line.Response, err = marshaler.Marshal(step.Response); err != nil {
			return err
		}
	}
	if step.Report != nil {
		if line.Report, err = marshaler.Marshal(step.Report); err != nil {
			return err
		}
	}
	return cli.WriteLine(w, line)
}

func (c *replayCommand) stepText(w io.Writer, step *replay.Step) error {
	recorded := &step.Scenario.Steps[step.Index]
	verdict := "the autoscaler is deleted"
	if step.Response != nil {
		verdict = explain.Summary(step.Response)
	}
	if step.Report != nil && recorded.ScaleUpdateError != "" {
		verdict += " (not applied: " + recorded.ScaleUpdateError + ")"
	}
	if !step.Compared && c.compares() {
		verdict += " (skipped: nothing is expected)"
	}
	_, err := fmt.Fprintf(w, "%s #%d %s  %s\n", printable.Text(step.Scenario.Name), step.Index+1, recorded.Time.UTC().Format(time.RFC3339Nano), printable.Text(verdict))
	for _, d := range step.Differences {
		if _, e := fmt.Fprintf(w, "    DIFFERS %s\n", printable.Text(d.String())); err == nil {
			err = e
		}
	}
	return err
}

// compares reports whether steps are compared.
func (c *replayCommand) compares() bool { return !c.noCompare && c.spec == "" }

// finish prints the summary; a mismatch is a failure, and so is a replay that should have
// compared steps but compared none.
func (c *replayCommand) finish(w io.Writer) error {
	s := &c.summary
	if c.output.Form == cli.AsJSON {
		if err := cli.WriteLine(w, s); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintln(w, s); err != nil {
		return err
	}
	switch {
	case s.FailedScenarios > 0:
		return fmt.Errorf("%d scenarios failed", s.FailedScenarios)
	case s.MismatchedSteps > 0:
		return fmt.Errorf("%d steps are decided otherwise than recorded; a recording lacks what others decided on its targets, such as a second agent, and the ages of samples that stages use", s.MismatchedSteps)
	case c.strict && s.SkippedSteps+s.SkippedScenarios > 0:
		return fmt.Errorf("--strict: %d steps and %d scenarios without steps were skipped", s.SkippedSteps, s.SkippedScenarios)
	case s.UnreadableLines > 0:
		return cli.BadInput(fmt.Errorf("%d lines or files have no readable scenario", s.UnreadableLines))
	case s.RefusedScenarios > 0:
		return cli.BadInput(fmt.Errorf("%d scenarios were refused", s.RefusedScenarios))
	case c.compares() && s.ComparedSteps == 0:
		return errors.New("nothing was compared: the recordings have no expectations; give --no-compare to only decide and print")
	}
	return nil
}

// String is the summary in a line, without the counts that are zero.
func (s *replaySummary) String() string {
	text := fmt.Sprintf("%d scenarios, %d steps, %d compared, %d skipped, %d mismatched",
		s.Scenarios, s.Steps, s.ComparedSteps, s.SkippedSteps, s.MismatchedSteps)
	for _, more := range []struct {
		n    int
		what string
	}{
		{s.SkippedScenarios, "scenarios without steps"}, {s.RefusedScenarios, "scenarios refused"},
		{s.FailedScenarios, "scenarios failed"}, {s.UnreadableLines, "unreadable"},
	} {
		if more.n > 0 {
			text += fmt.Sprintf(", %d %s", more.n, more.what)
		}
	}
	return text
}
