package targets

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/explain"
	"github.com/setpoint-dev/setpoint/internal/adjusted"
	"github.com/setpoint-dev/setpoint/internal/printable"
)

// writeTarget writes what is known of a target, and the overrides that act on its next decisions.
func writeTarget(w io.Writer, t *setpointv1.Target, overrides []string) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, printable.Text(fmt.Sprintf(format, args...)))
	}
	last := lastOf(t)
	row("Target", "%s", t.GetName())
	if ref := t.GetScaleTargetRef(); ref != nil {
		row("Scales", "%s %s", ref.GetKind(), ref.GetName())
	}
	now := time.Now()
	row("State", "%s", stateLine(t, now))
	row("Replicas", "%s", replicas(t.GetLastDecision()))
	if last.GetReason() != "" {
		row("Reason", "%s", last.GetReason())
	}
	row("Outcome", "%s", outcome(t.GetName(), last))
	for _, r := range stageRows(last.GetAdjustments(), last.PlainDesiredReplicas, last.GetDesiredReplicas()) {
		row(r[0], "%s", r[1])
	}
	for _, o := range overrides {
		row("Override", "%s", o)
	}
	row("Updated", "%s", instant(t.GetUpdateTime()))
	row("Last scaled", "%s, overrides aside", instant(t.GetStatus().GetLastScaleTime()))
	for _, m := range t.GetExplanation().GetMetrics() {
		row("Metric", "%s", metricLine(m))
	}
	for _, condition := range t.GetStatus().GetConditions() {
		row(condition.GetType(), "%s %s: %s", condition.GetStatus(), condition.GetReason(), condition.GetMessage())
	}
	row("Spec", "%s", specLine(t))
	for _, s := range t.GetShadows() {
		row("Shadow", "%s", explain.Shadow(s))
	}
	for i, line := range explain.Outlook(t.GetOutlook(), now) {
		name := ""
		if i == 0 {
			name = "Outlook"
		}
		row(name, "%s", line)
	}
	for i, line := range explain.Schedules(t.GetSpecInUse().GetStages(), t.GetOutlook().GetBounds(), now) {
		name := ""
		if i == 0 {
			name = "Schedules"
		}
		row(name, "%s", line)
	}
	row("History", "%d recommendations, %d scale-ups, %d scale-downs",
		len(t.GetHistory().GetRecommendations()), len(t.GetHistory().GetScaleUps()), len(t.GetHistory().GetScaleDowns()))
}

// stageRows are names and values of what the stages changed of a count; without is the count without them, nil: they took
// no part. There are none where they changed nothing.
func stageRows(adjustments []*setpointv1.Adjustment, without *int32, desired int32) (rows [][2]string) {
	for _, a := range adjustments {
		rows = append(rows, [2]string{"", explain.Adjustment(a)})
	}
	if without != nil && (len(rows) > 0 || *without != desired) {
		rows = append(rows, [2]string{"", adjusted.Without(*without)})
	}
	if len(rows) > 0 {
		rows[0][0] = "Stages"
	}
	return rows
}

// metricLine is "cpu resource utilization (percentage of request): 90 % of 60 %, asks for 5".
func metricLine(m *setpointv1.MetricExplanation) string {
	if m.GetError() != "" {
		return m.GetName() + ": " + m.GetError()
	}
	current, target := m.GetCurrent(), m.GetTarget()
	line := m.GetName()
	switch m.GetCalculation() {
	case "Utilization":
		line += fmt.Sprintf(": %d %% of %d %%", current.GetAverageUtilization(), target.GetAverageUtilization())
	case "Value":
		line += ": " + current.GetValue() + " of " + target.GetValue()
	default:
		line += ": " + printable.Average(current.GetAverageValue()) + " of " + target.GetAverageValue()
	}
	if m.Proposal != nil {
		line += fmt.Sprintf(", asks for %d", m.GetProposal())
	}
	return line
}

// specLine tells which spec decides.
func specLine(t *setpointv1.Target) string {
	use, kept := t.GetSpecInUse(), t.GetTargetSpec()
	switch {
	case use == nil && kept == nil:
		return "unknown"
	case use == nil:
		return "unknown; one is stored" + storedBy(kept)
	case kept == nil:
		return "sent by callers, " + use.GetHash()
	case kept.GetHash() == use.GetHash():
		return "the stored one, " + use.GetHash() + storedBy(kept)
	case kept.GetUpdateTime().AsTime().After(lastOf(t).GetTime().AsTime()):
		return use.GetHash() + " at the last decision; " + kept.GetHash() + " is stored since then, which the next poll uses" + storedBy(kept)
	}
	return "callers send another spec than the stored one: " + use.GetHash() + ", stored " + kept.GetHash() + storedBy(kept)
}

// storedBy says who stored a spec, and when.
func storedBy(s *setpointv1.TargetSpec) string {
	return ", stored by " + author(s) + " on " + instant(s.GetUpdateTime())
}

// newExplain explains the last decision on a live target.
func newExplain(c *targetsCommand) *cobra.Command {
	return &cobra.Command{
		Use:   "explain TARGET",
		Short: "Explain the last decision on a target, and what comes next",
		Long: `Explain the last decision on a target, from what the server keeps of it: readings, proposals, windows,
policies and bounds, but not the pods; and what comes next: when schedules start and end, and the counts if
the metrics stay as they are.`,
		Example: "  setpoint targets explain clusters/eu-1/namespaces/shop/targets/web",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.call(func(client setpointv1.TargetServiceClient) error {
				resp, err := client.GetTarget(cmd.Context(), &setpointv1.GetTargetRequest{Name: args[0]})
				if err != nil {
					return err
				}
				return c.explain(cmd, resp.GetTarget())
			})
		},
	}
}

func (c *targetsCommand) explain(cmd *cobra.Command, t *setpointv1.Target) error {
	req, resp := lastCall(t)
	if c.output.Form != cli.AsTable {
		return cli.WriteMessage(cmd.OutOrStdout(), c.output.Form, resp)
	}
	w := cmd.OutOrStdout()
	options := cli.Terminal(w)
	options.Missing = "its arithmetic is missing, as the server does not know its spec"
	if lastOf(t).PlainDesiredReplicas != nil {
		options.Missing = "its arithmetic is not known afterwards, as stages or overrides took part"
	}
	options.Ahead = t.GetOutlook().GetBounds()
	if err := explain.Write(w, req, resp, options); err != nil {
		return err
	}
	now := time.Now()
	if _, err := fmt.Fprintf(w, "\nState\n  %s\n", printable.Text(stateLine(t, now))); err != nil {
		return err
	}
	if err := explain.WriteShadows(w, t.GetShadows()); err != nil {
		return err
	}
	return explain.WriteOutlook(w, t.GetOutlook(), now)
}

// lastOf is the last decision on a target; an empty one where none is known.
func lastOf(t *setpointv1.Target) *setpointv1.Decision {
	if last := t.GetLastDecision(); last != nil {
		return last
	}
	return &setpointv1.Decision{}
}

// lastCall returns the last call on a target and its answer, as far as they are known.
func lastCall(t *setpointv1.Target) (*setpointv1.RecommendRequest, *setpointv1.RecommendResponse) {
	last, use := lastOf(t), t.GetSpecInUse()
	req := &setpointv1.RecommendRequest{Target: t.GetName(), Spec: use.GetSpec(), Options: use.GetOptions(), Stages: use.GetStages()}
	return req, &setpointv1.RecommendResponse{
		DesiredReplicas: last.GetDesiredReplicas(), CurrentReplicas: last.GetCurrentReplicas(), Action: last.GetAction(),
		RecommendationId: last.GetRecommendationId(), Reason: last.GetReason(), Error: last.GetError(), EvaluationTime: last.GetTime(),
		Status: t.GetStatus(), Explanation: t.GetExplanation(),
		Adjustments: last.GetAdjustments(), PlainDesiredReplicas: last.PlainDesiredReplicas,
	}
}

// author returns the caller that stored a spec, "?" as of an override if authentication was off.
func author(s *setpointv1.TargetSpec) string { return printable.Text(cmp.Or(s.GetUpdatedBy(), "?")) }
