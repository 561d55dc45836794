package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/server/restjson"
)

// watchCommand is targets watch.
type watchCommand struct {
	*targetsCommand
	since   string
	changes bool
}

func newTargetsWatch(of *targetsCommand) *cobra.Command {
	c := &watchCommand{targetsCommand: of}
	cmd := &cobra.Command{
		Use:   "watch [clusters/CLUSTER/namespaces/NAMESPACE[/targets/TARGET]]",
		Short: "Follow decisions as they are made, until interrupted; - stands for all clusters, namespaces or targets",
		Long: "Follow decisions as they are made, until interrupted. After a lost connection the watch resumes where it was; lost connections\n" +
			"and missed decisions are reported on standard error. -o json writes one line per response with a decision or a count of missed ones.",
		Example: "  setpoint targets watch --changes-only\n  setpoint targets watch clusters/eu-1/namespaces/shop --since 1h -o json",
		Args:    cli.UsageArgs(cobra.MaximumNArgs(1)),
		RunE:    c.run,
	}
	cmd.Flags().StringVar(&c.since, "since", "", "begin with what the server still holds since then: a duration like 1h, or an instant like 2026-01-02T15:04:05Z")
	cmd.Flags().BoolVar(&c.changes, "changes-only", false, "leave out decisions that changed no count")
	return cmd
}

func (c *watchCommand) run(cmd *cobra.Command, args []string) error {
	req := &setpointv1.WatchDecisionsRequest{Parent: "clusters/-/namespaces/-/targets/-", ChangesOnly: c.changes}
	if len(args) > 0 {
		req.Parent = args[0]
		if !strings.Contains(req.GetParent(), "/targets/") {
			req.Parent += "/targets/-"
		}
	}
	var err error
	if req.StartTime, err = sinceTime(c.since, time.Now()); err != nil {
		return err
	}
	client, err := openServer(c.server)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	out, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if c.output.Form == asTable {
		if err := writeRow(out, "TIME", "REPLICAS", "OUTCOME", "TARGET", "REASON"); err != nil {
			return err
		}
	}
	for r, err := range client.WatchDecisions(cmd.Context(), req, func(err error) {
		fmt.Fprintln(stderr, "interrupted, trying again: "+printable.Text(err.Error()))
	}) {
		if cmd.Context().Err() != nil { // somebody has seen enough
			return nil
		}
		if err != nil {
			return err
		}
		sayMissed(stderr, r)
		if err := c.show(out, r); err != nil {
			return err
		}
	}
	return nil
}

// sinceTime is --since, nil if it is not given.
func sinceTime(since string, now time.Time) (*timestamppb.Timestamp, error) {
	if since == "" {
		return nil, nil
	}
	if back, err := time.ParseDuration(since); err == nil && back >= 0 {
		return timestamppb.New(now.Add(-back)), nil
	}
	at, err := time.Parse(time.RFC3339, since)
	if err != nil {
		return nil, cli.BadInput(fmt.Errorf("--since: %q is neither a duration like 1h nor an instant like 2026-01-02T15:04:05Z", since))
	}
	return timestamppb.New(at), nil
}

// sayMissed tells of decisions that were missed.
func sayMissed(w io.Writer, r *setpointv1.WatchDecisionsResponse) {
	if n := r.GetMissedDecisions(); n > 0 {
		fmt.Fprintf(w, "decisions missed: %d\n", n)
	}
	if r.GetMissedUncounted() {
		fmt.Fprintln(w, "an unknown number of decisions is missed: the server holds them no longer")
	}
}

// show writes a response in its form.
func (c *watchCommand) show(w io.Writer, r *setpointv1.WatchDecisionsResponse) error {
	d := r.GetDecision()
	if d == nil && (c.output.Form == asTable || r.GetMissedDecisions() == 0 && !r.GetMissedUncounted()) {
		return nil // a sign of life
	}
	switch c.output.Form {
	case asTable:
		return writeRow(w, instant(d.GetTime()), replicas(d), d.GetOutcome(), r.GetTarget(), printable.Text(strings.TrimSpace(d.GetReason()+" "+d.GetError())))
	case cli.AsJSON:
		line, err := (&restjson.Marshaler{}).Marshal(r)
		if err != nil {
			return err
		}
		_, err = w.Write(append(line, '\n'))
		return err
	}
	if _, err := io.WriteString(w, "---\n"); err != nil {
		return err
	}
	return cli.WriteMessage(w, c.output.Form, r)
}

// writeRow writes a row whose columns stand below those before, whatever is still to come.
func writeRow(w io.Writer, at, replicas, outcome, target, reason string) error {
	_, err := fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-20s   %-14s   %-10s   %-50s   %s", at, replicas, outcome, target, reason), " "))
	return err
}
