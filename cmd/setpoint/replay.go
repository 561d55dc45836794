package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/cmd/setpoint/explain"
	"github.com/setpoint-dev/setpoint/cmd/setpoint/replay"
	"github.com/setpoint-dev/setpoint/server/restjson"
)

// replayCommand holds the flags of setpoint replay and what came of it.
type replayCommand struct {
	address *string
	spec    string
	quiet   bool
	output  *outputFlag

	summary replaySummary
	// refused scenarios, which no step came of.
	refused int
	bar     *progressbar.ProgressBar
}

// replaySummary is the last line of -o json.
type replaySummary struct {
	Scenarios       int `json:"scenarios"`
	Steps           int `json:"steps"`
	MismatchedSteps int `json:"mismatchedSteps"`
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
	c := &replayCommand{output: newOutputFlag(asText, asJSON)}
	cmd := &cobra.Command{
		Use:   "replay FILE...",
		Short: "Replay recordings and compare with what they expect",
		Long: `Replay recordings step by step, print each decision, and compare it with what the
recording expects. Exits with 1 if a step came out otherwise.

Without a server the recommender itself decides, also for specs that the service
would refuse. A server must have been started with --allow-evaluation-time; each
scenario gets a target of its own there, which is deleted afterwards.`,
		Example: "  setpoint replay recording.jsonl.gz\n  setpoint replay --spec new-hpa.yaml production.jsonl\n  setpoint replay -o json --server 127.0.0.1:9090 recording.jsonl | tail -n 1",
		Args:    cobra.MinimumNArgs(1),
		RunE:    c.run,
	}
	c.address = addServerFlag(cmd, "", "a server that answers; without one it is decided here")
	cmd.Flags().StringVar(&c.spec, "spec", "", "`file` of a HorizontalPodAutoscaler whose spec replaces the recorded ones; nothing is compared then")
	cmd.Flags().BoolVarP(&c.quiet, "quiet", "q", false, "print only steps that came out otherwise, and the summary")
	cmd.Flags().VarP(c.output, "output", "o", "form of the output: text or json (lines)")
	return cmd
}

func (c *replayCommand) run(cmd *cobra.Command, files []string) error {
	options := replay.Options{}
	if c.spec != "" {
		spec, err := readSpec(cmd, c.spec)
		if err != nil {
			return err
		}
		options.Spec = spec
	}
	var backend replay.Backend = replay.NewEngine()
	if *c.address != "" {
		conn, err := dial(*c.address)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		backend = replay.NewServer(conn)
		// Two replays on one server must not meet.
		options.Cluster = fmt.Sprintf("replay-%d-%d", os.Getpid(), time.Now().UnixNano())
	}
	runner := replay.NewRunner(backend, options)
	for _, name := range files {
		if err := c.file(cmd, runner, name); err != nil {
			c.clearBar()
			return err
		}
	}
	c.clearBar()
	return c.finish(cmd.OutOrStdout())
}

// readSpec reads the one autoscaler of a manifest.
func readSpec(cmd *cobra.Command, name string) (*autoscalingv2.HorizontalPodAutoscalerSpec, error) {
	file, err := open(cmd, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	autoscalers, err := kubernetes.ReadAutoscalers(name, file)
	if err != nil {
		return nil, badInput(err)
	}
	if len(autoscalers) != 1 {
		return nil, badInput(fmt.Errorf("%s: holds %d HorizontalPodAutoscalers, not one", name, len(autoscalers)))
	}
	kubernetes.Defaults(autoscalers[0])
	return &autoscalers[0].Spec, nil
}

// file replays the scenarios of one file.
func (c *replayCommand) file(cmd *cobra.Command, runner *replay.Runner, name string) error {
	file, err := open(cmd, name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	in := c.watch(cmd, file, name)
	for scenario, err := range recording.NewReader(name, in).All() {
		if err != nil {
			return badInput(err)
		}
		c.summary.Scenarios++
		err := runner.Run(cmd.Context(), scenario, func(step *replay.Step) error { return c.step(cmd.OutOrStdout(), step) })
		if status.Code(errors.Unwrap(err)) == codes.InvalidArgument {
			// One spec that is refused does not keep the others from being replayed.
			c.refused++
			c.clearBar()
			fmt.Fprintf(cmd.ErrOrStderr(), "setpoint: %s: refused: %v\n", name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// watch shows how much of a file has been read, where a person sees it.
func (c *replayCommand) watch(cmd *cobra.Command, file io.Reader, name string) io.Reader {
	screen, ok := cmd.ErrOrStderr().(*os.File)
	f, isFile := file.(*os.File)
	if !ok || !isFile || !term.IsTerminal(int(screen.Fd())) {
		return file
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return file
	}
	c.bar = progressbar.NewOptions64(info.Size(),
		progressbar.OptionSetWriter(screen),
		progressbar.OptionSetDescription(name),
		progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(200*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
	reader := progressbar.NewReader(file, c.bar)
	return &reader
}

func (c *replayCommand) clearBar() {
	if c.bar != nil {
		_ = c.bar.Clear()
	}
}

// step counts and prints one step.
func (c *replayCommand) step(w io.Writer, step *replay.Step) error {
	c.summary.Steps++
	if len(step.Differences) > 0 {
		c.summary.MismatchedSteps++
	} else if c.quiet {
		return nil
	}
	c.clearBar()
	if c.output.form == asJSON {
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
	return json.NewEncoder(w).Encode(line)
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
	_, err := fmt.Fprintf(w, "%s #%d %s  %s\n", step.Scenario.Name, step.Index+1, recorded.Time.UTC().Format(time.RFC3339Nano), verdict)
	for _, d := range step.Differences {
		if _, e := fmt.Fprintf(w, "    DIFFERS %s\n", d); err == nil {
			err = e
		}
	}
	return err
}

// finish prints the summary; a mismatch is a failure.
func (c *replayCommand) finish(w io.Writer) error {
	if c.output.form == asJSON {
		if err := json.NewEncoder(w).Encode(c.summary); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintf(w, "%d scenarios, %d steps, %d mismatched\n",
		c.summary.Scenarios, c.summary.Steps, c.summary.MismatchedSteps); err != nil {
		return err
	}
	if c.summary.MismatchedSteps > 0 {
		return errQuiet
	}
	if c.refused > 0 {
		return badInput(fmt.Errorf("%d scenarios were refused", c.refused))
	}
	return nil
}
