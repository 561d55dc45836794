package fleetcmd

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/internal/printable"
)

func (c *command) show(cmd *cobra.Command, args []string) error {
	name, err := nameOf("fleet", args[0])
	if err != nil {
		return cli.BadInput(err)
	}
	return c.server.Call(func(conn grpc.ClientConnInterface) error {
		resp, err := setpointv1.NewFleetServiceClient(conn).GetFleet(cmd.Context(), &setpointv1.GetFleetRequest{Name: name})
		if status.Code(err) == codes.NotFound {
			return noFleet(name)
		}
		if err != nil {
			return err
		}
		if c.output.Form != cli.AsTable {
			return cli.WriteMessage(cmd.OutOrStdout(), c.output.Form, resp.GetFleet())
		}
		// The targets of its metrics; without them their values are shown alone.
		stored, _ := setpointv1.NewTargetServiceClient(conn).GetTargetSpec(cmd.Context(), &setpointv1.GetTargetSpecRequest{Name: name})
		return write(cmd.OutOrStdout(), resp.GetFleet(), stored.GetTargetSpec().GetSpec(), time.Now())
	})
}

// write writes a fleet for people, in lines of the width of a terminal.
func write(to io.Writer, f *setpointv1.Fleet, spec *setpointv1.HorizontalPodAutoscalerSpec, now time.Time) error {
	var out strings.Builder
	row := func(name, format string, args ...any) {
		wrap(&out, fmt.Sprintf("%-9s", name), printable.Text(fmt.Sprintf(format, args...)))
	}
	row("Fleet", "%s", f.GetName())
	row("Replicas", "%s", replicas(f, now))
	if figures := agent.FiguresOf(&setpointv1.RecommendResponse{Status: f.GetStatus(), Adjustments: f.GetAdjustments()}, &setpointv1.RecommendRequest{Spec: spec}); f.GetStatus() != nil {
		if why := figures.With(""); why != "" {
			row("Why", "%s", why)
		}
		for _, c := range f.GetStatus().GetConditions() {
			if usual := map[string]string{"AbleToScale": "True", "ScalingActive": "True"}[c.GetType()]; c.GetStatus() != cmp.Or(usual, "False") {
				row("", "%s %s %s: %s", c.GetType(), c.GetStatus(), c.GetReason(), c.GetMessage())
			}
		}
	}
	if names := f.GetContradictions(); len(names) > 0 {
		row("Scopes", "contradicted by what members read of %s: a GLOBAL metric is about the same for all, a PER_MEMBER one is not", strings.Join(names, ", "))
	}
	row("Members", "%s", members(f))
	if silent := quiet(f, now); silent > 0 {
		row("", "nobody has called for %s: there are no decisions, and all keep what they have; nobody becomes lost, as silence counts only while others call", printable.Age(silent))
	}
	row("Silent", "stale after %s, lost after %s, and then its share is %s", lastsOr(f.GetSpec().GetStaleAfter(), "three periods"), lastsOr(f.GetSpec().GetLostAfter(), "5m, or when it is stale"),
		map[string]string{"hold": "kept", "shift": "the others'"}[onLost(f.GetSpec())])
	out.WriteString("\n")
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MEMBER\tSTATE\tSHARE\tHAS\tRUNNING\tWEIGHT\tBOUNDS\tCALLED")
	bounds := make(map[string]*setpointv1.FleetMember, len(f.GetSpec().GetMembers()))
	for _, m := range f.GetSpec().GetMembers() {
		bounds[m.GetTarget()] = m
	}
	var notes strings.Builder
	for _, m := range f.GetMembers() {
		set := bounds[m.GetTarget()]
		weight, most := int32(1), f.GetMaxReplicas()
		if set != nil && set.Weight != nil {
			weight = set.GetWeight()
		}
		if set != nil && set.MaxReplicas != nil {
			most = set.GetMaxReplicas()
		}
		state := strings.ToLower(printable.Text(m.GetState()))
		if m.GetDrained() {
			state += ", drained"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d-%d\t%s\n", short(m.GetTarget()), state, count(m.Share), count(m.SpecReplicas), count(m.StatusReplicas), weight, //nolint:protogetter // absent is not 0
			set.GetMinReplicas(), most, ago(m.GetLastCallTime(), now))
		all := notesOf(m, f.GetDesiredReplicas() > 0, set.GetMinReplicas(), most)
		if silent := m.GetState() == "STALE" || m.GetState() == "LOST" && onLost(f.GetSpec()) == "hold"; silent && m.GetSpecReplicas() > 0 && ofPods(f) {
			all = append(all, fmt.Sprintf("nothing is known of its %d replicas now: they count as idle for a scale-up, and as busy for a scale-down", m.GetSpecReplicas()))
		}
		for _, note := range all {
			wrap(&notes, short(m.GetTarget())+":", printable.Text(note))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if notes.Len() > 0 {
		out.WriteString("\n" + notes.String())
	}
	_, err := io.WriteString(to, out.String())
	return err
}

// replicas is "12 of 4 to 40, decided 3s ago; 13 are shared out, 1 of them no member can take".
func replicas(f *setpointv1.Fleet, now time.Time) string {
	if f.GetDecisionTime() == nil {
		return fmt.Sprintf("none decided yet; %d to %d: it waits for the calls of its members", f.GetMinReplicas(), f.GetMaxReplicas())
	}
	text := fmt.Sprintf("%d of %d to %d, decided %s; the shares add up to %d", f.GetDesiredReplicas(), f.GetMinReplicas(), f.GetMaxReplicas(), ago(f.GetDecisionTime(), now), f.GetShareTotal())
	if n := f.GetUnplacedReplicas(); n > 0 {
		text += fmt.Sprintf("; %d more that no member can take", n)
	}
	switch n := f.GetMissingReplicas(); {
	case n > 0 && n >= f.GetDesiredReplicas():
		text += "; one member has them all: no other one would remain, so nothing is added for its loss"
	case n > 0:
		text += fmt.Sprintf("; without the largest member %d would be missing", n)
	}
	return text
}

// members is "3 fresh, 1 lost, 1 drained; the count is to remain without the largest".
func members(f *setpointv1.Fleet) string {
	text := byState(f.GetMemberCounts())
	if f.GetSpec().GetSurviveOne() {
		text += "; the count is to remain without the largest"
	}
	return text
}

// byState is "3 fresh, 1 lost, 1 drained".
func byState(n *setpointv1.FleetMemberCounts) string {
	var parts []string
	for _, one := range []struct {
		n    int32
		word string
	}{{n.GetFresh(), "fresh"}, {n.GetReturning(), "returning"}, {n.GetStale(), "stale"}, {n.GetLost(), "lost"}, {n.GetUnseen(), "unseen"}, {n.GetDrained(), "drained"}} {
		if one.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", one.n, one.word))
		}
	}
	return strings.Join(parts, ", ")
}

// ofPods reports whether a fleet has a metric of pods.
func ofPods(f *setpointv1.Fleet) bool {
	return slices.ContainsFunc(f.GetStatus().GetCurrentMetrics(), func(m *setpointv1.MetricStatus) bool {
		return m.GetType() != "External" && m.GetType() != "Object"
	})
}

// notesOf are what a table has no column for. The fleet has a member between least and most; that it has one by itself, as
// any spec says, is not worth a word. On is a fleet that has replicas: in one that has none members have none, too.
func notesOf(m *setpointv1.FleetMemberStatus, on bool, least, most int32) (notes []string) {
	if m.OwnMinReplicas != nil && m.GetOwnMinReplicas() > max(1, least) {
		notes = append(notes, fmt.Sprintf("it has at least %d, by its own spec or an override of it", m.GetOwnMinReplicas()))
	}
	if m.OwnMaxReplicas != nil && m.GetOwnMaxReplicas() < most {
		notes = append(notes, fmt.Sprintf("it has at most %d, by its own spec or an override of it", m.GetOwnMaxReplicas()))
	}
	if m.Capacity != nil {
		notes = append(notes, fmt.Sprintf("it gets at most %d for now: it has not got more to run", m.GetCapacity()))
	}
	if m.GetError() != "" {
		notes = append(notes, m.GetError())
	}
	if least = max(least, m.GetOwnMinReplicas()); on && least > 0 && m.Share != nil && m.SpecReplicas != nil && m.GetShare()+m.GetSpecReplicas() == 0 && !m.GetDrained() {
		notes = append(notes, "it is off: somebody has scaled it to 0, and it takes part again when it is scaled to 1 or more")
	}
	if m.Share != nil && m.SpecReplicas != nil && !m.GetApplied() {
		notes = append(notes, "it has not done what an answer of the last minutes said")
	}
	return notes
}

func count(n *int32) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

func ago(t *timestamppb.Timestamp, now time.Time) string {
	if t == nil {
		return "never"
	}
	return printable.Age(now.Sub(t.AsTime())) + " ago"
}

// lastsOr is a duration, or what it is where a service of an earlier version leaves out the default.
func lastsOr(d *durationpb.Duration, usual string) string {
	if d == nil {
		return usual
	}
	return printable.Duration(d.AsDuration())
}

// width is that of a terminal.
const width = 80

// wrap writes a text after its name.
func wrap(out *strings.Builder, name, text string) {
	out.WriteString(printable.Wrap(text, name+" ", strings.Repeat(" ", min(len(name), 9)+1), width))
}
