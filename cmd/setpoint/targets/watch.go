package targets

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/internal/adjusted"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/restjson"
)

// watchCommand is targets watch.
type watchCommand struct {
	*targetsCommand
	since            string
	changes, pending bool
	// mu guards waiting and the output of a table.
	mu sync.Mutex
	// waiting are changes whose outcome is not known yet, by their ids.
	waiting map[string]waitingChange
}

// waitingChange is a change that the table leaves out until its outcome is known, or for some time.
type waitingChange struct {
	response *setpointv1.WatchDecisionsResponse
	due      time.Time
}

const (
	// staysPending is how long after its decision a change without an outcome is shown. The outcome of an old one follows
	// it within leastPending, if it has one.
	staysPending = 10 * time.Second
	leastPending = time.Second
	// mostWaiting limits the changes that wait; further ones are shown at once.
	mostWaiting = 4096
)

func newWatch(of *targetsCommand) *cobra.Command {
	c := &watchCommand{targetsCommand: of}
	cmd := &cobra.Command{
		Use:   "watch [clusters/CLUSTER/namespaces/NAMESPACE[/targets/TARGET]]",
		Short: "Follow decisions as they are made, until interrupted; - stands for all clusters, namespaces or targets",
		Long: "Follow decisions as they are made, until interrupted. After a lost connection the watch resumes where it was; lost connections\n" +
			"and missed decisions are reported on standard error. The table has each change once, with its outcome and why it failed; as PENDING only\n" +
			"without one for ten seconds or at the end, or with --pending. -o json writes one line per response with a decision or a count of missed ones.",
		Example: "  setpoint targets watch --changes-only\n  setpoint targets watch clusters/eu-1/namespaces/shop --since 1h -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE:    c.run,
	}
	cmd.Flags().StringVar(&c.since, "since", "", "begin with what the server still holds since then, of deleted targets too: a duration like 1h or 1d, or an instant like 2026-01-02T15:04:05Z")
	cmd.Flags().BoolVar(&c.changes, "changes-only", false, "leave out decisions that changed no count")
	cmd.Flags().BoolVar(&c.pending, "pending", false, "show changes also before their outcome is known")
	return cmd
}

func (c *watchCommand) run(cmd *cobra.Command, args []string) error {
	req := &setpointv1.WatchDecisionsRequest{Parent: "clusters/-/namespaces/-/targets/-", ChangesOnly: c.changes}
	if len(args) > 0 {
		req.Parent = target.Namespaces(args[0])
		if strings.Count(req.GetParent(), "/") == 3 { // errors quote anything else as it was given
			req.Parent += "/targets/-"
		}
	}
	var err error
	if req.StartTime, err = sinceTime(c.since, time.Now()); err != nil {
		return err
	}
	if err := checkRequest(req); err != nil {
		return err
	}
	return c.server.Use(func(client *setpoint.Client) error { return c.follow(cmd, client, req) })
}

// follow shows decisions until it is interrupted.
func (c *watchCommand) follow(cmd *cobra.Command, client *setpoint.Client, req *setpointv1.WatchDecisionsRequest) error {
	out, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if _, one := target.Parse(req.GetParent()); one {
		_, err := setpointv1.NewTargetServiceClient(client.Conn()).ListDecisions(cmd.Context(), &setpointv1.ListDecisionsRequest{Parent: req.GetParent(), PageSize: 1})
		if status.Code(err) == codes.NotFound { // the name may be mistyped
			fmt.Fprintln(stderr, "nothing is known of "+req.GetParent()+": the watch waits for its first decision")
		}
	}
	begun, away := false, false
	if c.output.Form == cli.AsTable {
		ctx, cancel := context.WithCancel(cmd.Context())
		var showing sync.WaitGroup
		showing.Go(func() { c.showDue(ctx, out) })
		defer func() {
			cancel()
			showing.Wait()
			_ = c.writeDue(out, time.Now().Add(staysPending)) // no outcome comes any more; who has seen enough may read no further
		}()
	}
	for r, err := range client.WatchDecisions(cmd.Context(), req, func(err error) {
		switch {
		case status.Code(err) == codes.Unauthenticated: // the token may have been replaced
			fmt.Fprintln(stderr, "refused, trying once more with the credentials that there are now: "+cli.Text(err))
		case away:
		case begun:
			fmt.Fprintln(stderr, "interrupted, trying again until the server is back: "+cli.Text(err))
		default: // the watch gives up after some attempts
			fmt.Fprintln(stderr, "no answer yet, trying again a few times: "+cli.Text(err))
		}
		away = true
	}) {
		if cmd.Context().Err() != nil { // somebody has seen enough
			return nil
		}
		if err != nil {
			return err
		}
		if away && begun {
			fmt.Fprintln(stderr, "the server is back")
		}
		if !begun && c.output.Form == cli.AsTable {
			if err := writeRow(out, "TIME", "REPLICAS", "OUTCOME", "TARGET", "REASON"); err != nil {
				return err
			}
		}
		begun, away = true, false
		sayMissed(stderr, r)
		if err := c.show(out, r, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// sinceTime is --since, nil if it is not given. Days are taken, as in the service's specs.
func sinceTime(since string, now time.Time) (*timestamppb.Timestamp, error) {
	if since == "" {
		return nil, nil
	}
	if back, err := document.ParseDuration(since); err == nil && back >= 0 {
		return timestamppb.New(now.Add(-back)), nil
	}
	at, err := time.Parse(time.RFC3339, since)
	if err != nil {
		return nil, cli.BadInput(fmt.Errorf("--since: %q is neither a duration like 1h or 1d nor an instant like 2026-01-02T15:04:05Z%s", since, document.WithUnit(since)))
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
func (c *watchCommand) show(w io.Writer, r *setpointv1.WatchDecisionsResponse, now time.Time) error {
	if c.output.Form == cli.AsTable {
		return c.showRow(w, r, now)
	}
	if r.GetDecision() == nil && r.GetMissedDecisions() == 0 && !r.GetMissedUncounted() {
		return nil // a sign of life
	}
	if c.output.Form == cli.AsJSON {
		line, err := (&restjson.Marshaler{}).Marshal(r)
		if err != nil {
			return err
		}
		return cli.WriteJSON(w, cli.AsJSON, line)
	}
	if _, err := io.WriteString(w, "---\n"); err != nil {
		return err
	}
	return cli.WriteMessage(w, c.output.Form, r)
}

// showRow writes the row of a response with a decision, unless that waits for its outcome.
func (c *watchCommand) showRow(w io.Writer, r *setpointv1.WatchDecisionsResponse, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := r.GetDecision()
	if d == nil {
		return nil // a sign of life
	}
	delete(c.waiting, d.GetRecommendationId())
	if d.GetOutcome() != "PENDING" || c.pending || len(c.waiting) >= mostWaiting {
		return writeDecision(w, r)
	}
	if c.waiting == nil {
		c.waiting = make(map[string]waitingChange)
	}
	// Whatever the two clocks say.
	wait := min(max(d.GetTime().AsTime().Add(staysPending).Sub(now), leastPending), staysPending)
	c.waiting[d.GetRecommendationId()] = waitingChange{r, now.Add(wait)}
	return nil
}

// showDue writes the rows of changes that have waited long enough, until the context is over or writing fails, as every
// later row then does.
func (c *watchCommand) showDue(ctx context.Context, w io.Writer) {
	look := time.NewTicker(leastPending / 4)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-look.C:
			if c.writeDue(w, now) != nil {
				return
			}
		}
	}
}

func (c *watchCommand) writeDue(w io.Writer, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var due []*setpointv1.WatchDecisionsResponse
	for id, change := range c.waiting {
		if !now.Before(change.due) {
			due = append(due, change.response)
			delete(c.waiting, id)
		}
	}
	slices.SortFunc(due, func(a, b *setpointv1.WatchDecisionsResponse) int {
		return a.GetDecision().GetTime().AsTime().Compare(b.GetDecision().GetTime().AsTime())
	})
	for _, r := range due {
		if err := writeDecision(w, r); err != nil {
			return err
		}
	}
	return nil
}

// writeDecision writes the row of a decision.
func writeDecision(w io.Writer, r *setpointv1.WatchDecisionsResponse) error {
	d := r.GetDecision()
	return writeRow(w, instant(d.GetTime()), replicas(d), outcome(r.GetTarget(), d), r.GetTarget(), printable.Text(why(r.GetTarget(), d)))
}

// outcome is the outcome of a decision on the target. A shadow applies nothing: its next call shows whether the workload came to
// the count.
func outcome(name string, d *setpointv1.Decision) string {
	switch outcome := d.GetOutcome(); {
	case !strings.HasSuffix(name, target.ShadowSuffix):
		return outcome
	case outcome == "APPLIED":
		return "SEEN"
	case outcome == "DROPPED":
		return "NOT SEEN"
	default:
		return outcome
	}
}

// why is the reason of a decision, its error, what stages changed, and what became of its change if it was not applied.
func why(name string, d *setpointv1.Decision) string {
	// Never cut: it has until when an override acts, whose it is and why.
	parts := []string{adjusted.Reason(cmp.Or(d.GetReason(), limitOf(d)), adjusted.Messages(d.GetAdjustments())...), d.GetError()}
	switch outcome(name, d) {
	case "FAILED":
		for _, condition := range d.GetConditions() {
			if condition.GetReason() == recommender.FailedUpdateScale {
				parts = append(parts, condition.GetMessage())
			}
		}
	case "DROPPED":
		parts = append(parts, "never reported, and the next call did not have it")
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "; ")
}

// limitOf is what held or limited a count for which no metric is the reason; empty: nothing did. Where no metric could be
// read, the conditions on limits are those of an earlier decision.
func limitOf(d *setpointv1.Decision) string {
	if all := d.GetConditions(); len(d.GetAdjustments()) == 0 && len(all) > 0 { // a member's share has no adjustments
		if last := all[len(all)-1]; last.GetType() == "Overridden" && last.GetStatus() == recommender.ConditionTrue {
			return last.GetMessage()
		}
	}
	if slices.ContainsFunc(d.GetConditions(), func(c *setpointv1.HorizontalPodAutoscalerCondition) bool {
		return c.GetType() == recommender.ScalingActive && c.GetStatus() != recommender.ConditionTrue
	}) {
		return ""
	}
	for _, c := range d.GetConditions() { // AbleToScale is before ScalingLimited
		switch stabilized := c.GetReason() == "ScaleDownStabilized" || c.GetReason() == "ScaleUpStabilized"; {
		case c.GetType() == recommender.AbleToScale && stabilized, c.GetType() == recommender.ScalingLimited && c.GetStatus() == "True":
			return c.GetMessage()
		}
	}
	return ""
}

// writeRow writes a row whose columns stand below those before, whatever is still to come.
func writeRow(w io.Writer, at, replicas, outcome, target, reason string) error {
	_, err := fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-20s   %-14s   %-10s   %-50s   %s", at, replicas, outcome, target, reason), " "))
	return err
}
