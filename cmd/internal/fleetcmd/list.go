package fleetcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/server/fleets"
	"github.com/setpoint-dev/setpoint/server/restjson"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// atOnce is how many fleets are asked for at a time.
const atOnce = 8

// state is that of a listed fleet, or why it is not known.
type state struct {
	of  *setpointv1.Fleet
	err error
}

// statesOf asks for the states of a page of fleets. One that can't be read leaves the others as they are; the error is
// that no more are asked for.
func statesOf(ctx context.Context, client setpointv1.FleetServiceClient, fleets []*setpointv1.TargetSpec) ([]state, error) {
	out := make([]state, len(fleets))
	next := make(chan int)
	var asked sync.WaitGroup
	for range min(atOnce, len(fleets)) {
		asked.Go(func() {
			for i := range next {
				resp, err := client.GetFleet(ctx, &setpointv1.GetFleetRequest{Name: fleets[i].GetName()})
				out[i] = state{resp.GetFleet(), err}
			}
		})
	}
	for i := range fleets {
		next <- i
	}
	close(next)
	asked.Wait()
	for i := range out {
		if code := status.Code(out[i].err); code == codes.Unimplemented || code == codes.Unauthenticated {
			return nil, out[i].err
		}
	}
	return out, ctx.Err()
}

// writeList writes the table of fleets.
func writeList(to io.Writer, fleets []*setpointv1.TargetSpec, states []state, now time.Time) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FLEET\tDESIRED\tSHARES\tBOUNDS\tMEMBERS\tDECIDED\tWRONG")
	for i, s := range fleets {
		desired, shares, decided, f := "-", "-", "-", states[i].of
		said := fmt.Sprint(len(s.GetFleet().GetMembers()))
		if f != nil {
			said, decided = byState(f.GetMemberCounts()), ago(f.GetDecisionTime(), now)
		}
		if f.GetDecisionTime() != nil {
			desired, shares = fmt.Sprint(f.GetDesiredReplicas()), fmt.Sprint(f.GetShareTotal())
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d-%d\t%s\t%s\t%s\n", short(s.GetName()), desired, shares, validation.MinReplicas(s.GetSpec()), s.GetSpec().GetMaxReplicas(), said, decided, wrong(states[i], now))
	}
	return w.Flush()
}

// listed is what is written of a fleet for programs, beside its spec.
type listed struct {
	Name string `json:"name"`
	// Wrong is as in the table; empty: nothing. Fleet is absent if it can't be read.
	Wrong string          `json:"wrong"`
	Fleet json.RawMessage `json:"fleet,omitempty"`
}

// writeAll writes fleets as JSON or YAML.
func writeAll(to io.Writer, form string, fleets []*setpointv1.TargetSpec, states []state, now time.Time) error {
	all := struct {
		Specs  []json.RawMessage `json:"targetSpecs"`
		States []listed          `json:"states"`
	}{[]json.RawMessage{}, []listed{}}
	var marshaler restjson.Marshaler
	for i, s := range fleets {
		spec, err := marshaler.Marshal(s)
		if err != nil {
			return err
		}
		one := listed{Name: s.GetName(), Wrong: strings.TrimPrefix(wrong(states[i], now), "-")}
		if states[i].of != nil {
			if one.Fleet, err = marshaler.Marshal(states[i].of); err != nil {
				return err
			}
		}
		all.Specs, all.States = append(all.Specs, spec), append(all.States, one)
	}
	return cli.WriteValue(to, form, all)
}

// inVain is how many members call without being answered as members.
func inVain(f *setpointv1.Fleet) (n int32) {
	for _, m := range f.GetMembers() {
		if strings.HasPrefix(m.GetError(), fleets.InVain) {
			n++
		}
	}
	return n
}

// quiet is for how long nobody has called a fleet whose members are all silent. Zero: somebody does, or none ever has.
// Nobody is lost by that, and there are no decisions.
func quiet(f *setpointv1.Fleet, now time.Time) time.Duration {
	var last time.Time
	for _, m := range f.GetMembers() {
		if at := m.GetLastCallTime(); at != nil && at.AsTime().After(last) {
			last = at.AsTime()
		}
	}
	if n := f.GetMemberCounts(); last.IsZero() || n.GetFresh()+n.GetReturning() > 0 || inVain(f) > 0 {
		return 0
	}
	if silent := now.Sub(last); silent > max(f.GetSpec().GetStaleAfter().AsDuration(), f.GetSpec().GetLostAfter().AsDuration()/2) {
		return silent
	}
	return 0
}

// missed is " with 1 lost, 2 stale": what members that are silent know of a metric is missing.
func missed(n *setpointv1.FleetMemberCounts) string {
	silent := byState(&setpointv1.FleetMemberCounts{Lost: n.GetLost(), Stale: n.GetStale()})
	if silent != "" {
		return " with " + silent
	}
	return ""
}

// wrong is what is the matter with a fleet, the worst first, besides the states of its members: as the page tells it.
func wrong(s state, now time.Time) string {
	f := s.of
	var out []string
	switch {
	case status.Code(s.err) == codes.NotFound:
		return "deleted meanwhile"
	case s.err != nil:
		return "its state can't be read: " + printable.Text(status.Convert(s.err).Message())
	}
	if f.GetDecisionTime() == nil {
		out = append(out, "not decided yet")
	}
	if silent := quiet(f, now); silent > 0 {
		out = append(out, "nobody has called for "+printable.Age(silent))
	}
	if n := inVain(f); n > 0 {
		out = append(out, fmt.Sprintf("%d call in vain", n))
	}
	if f.GetDecisionTime() == nil {
		return strings.Join(out, ", ")
	}
	for _, c := range f.GetStatus().GetConditions() {
		switch {
		case c.GetType() == "ScalingActive" && c.GetStatus() != "True" && c.GetReason() != "ScalingDisabled":
			out = append(out, "no count: "+printable.Text(c.GetReason())+missed(f.GetMemberCounts()))
		case c.GetReason() == "TooManyReplicas" && len(out) == 0: // else it is of an earlier decision
			out = append(out, "at its maximum")
		}
	}
	blind, differs := int32(0), int32(0)
	for _, m := range f.GetMembers() {
		silent := m.GetState() == "STALE" || m.GetState() == "LOST" || m.GetState() == "UNSEEN"
		if m.GetError() != "" && !silent {
			blind++
		}
		if m.Share != nil && m.SpecReplicas != nil && !m.GetApplied() && !silent {
			differs++
		}
	}
	for _, one := range []struct {
		n    int32
		what string
	}{{f.GetUnplacedReplicas(), "unplaced"}, {f.GetMissingReplicas(), "missing without the largest member"}, {blind, "without a metric"}, {differs, "not as told"}, {int32(len(f.GetContradictions())), "metrics against their scope"}} {
		if one.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", one.n, one.what))
		}
	}
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, ", ")
}
