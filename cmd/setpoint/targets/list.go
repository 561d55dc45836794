package targets

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/listing"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// Further forms of lists of targets: names alone, and the table without shortened names.
const (
	asName = "name"
	asWide = "wide"
)

// The states that follow from the clock, from turns and from what is missing; all others are the server's.
const (
	notAsked = "not-asked"
	unread   = "unread"
	flapping = "flapping"
	unsure   = "unknown"
	steady   = "steady"
)

// listStates are the states as people name them, the most urgent first, each with the server's word.
var listStates = []struct{ name, word string }{
	{unread, ""}, {notAsked, ""}, {"unreadable", "SCALE_UNREADABLE"}, {"invalid", "INVALID"}, {"failing", "METRICS_FAILING"},
	{"refused", "UPDATE_FAILED"}, {"overridden", "OVERRIDDEN"}, {"max", "AT_MAXIMUM"}, {flapping, ""}, {"limited", "LIMITED"}, {"held", "HELD"},
	{unsure, ""}, {"min", "AT_MINIMUM"}, {"disabled", "DISABLED"}, {steady, ""},
}

// stateNames are the names of all states.
func stateNames() (all []string) {
	for _, s := range listStates {
		all = append(all, s.name)
	}
	return all
}

// listedTarget is a line of the list.
type listedTarget struct {
	*setpointv1.Target
	// states are places in listStates, the most urgent first.
	states []int
	// lack is how many replicas the metrics ask for beyond the desired ones; -1: unknown.
	lack int32
	// asked is when it was last asked for; zero: unknown.
	asked time.Time
}

func newListedTarget(t *setpointv1.Target, now time.Time) listedTarget {
	l := listedTarget{Target: t, lack: -1}
	d := t.GetLastDecision()
	if d != nil {
		l.asked = d.GetTime().AsTime()
	}
	if b := d.GetBasis(); b != nil && b.Proposal != nil {
		l.lack = max(0, b.GetProposal()-d.GetDesiredReplicas())
	}
	for i, s := range listStates {
		if l.is(s.name, s.word, now) {
			l.states = append(l.states, i)
		}
	}
	return l
}

func (l *listedTarget) is(name, word string, now time.Time) bool {
	switch name {
	case unread:
		return l.GetLastDecision() == nil
	case notAsked:
		return l.GetNotAskedTime() != nil && now.After(l.GetNotAskedTime().AsTime())
	case flapping:
		return now.Before(l.GetFlappingUntilTime().AsTime()) // 1970 without one
	case "overridden":
		if l.overrideEnded(now) {
			return false
		}
	case unsure:
		return l.overrideEnded(now)
	case steady:
		return len(l.states) == 0
	}
	return slices.Contains(l.GetLastDecision().GetStates(), word)
}

// overrideEnded reports whether an override decided the count that has ended since: what holds now nobody knows.
func (l *listedTarget) overrideEnded(now time.Time) bool {
	until := overriddenUntil(l.GetLastDecision())
	return until != nil && now.After(until.AsTime())
}

// overriddenUntil is when the override ends that a decision had; nil: it had none, or that is not known.
func overriddenUntil(d *setpointv1.Decision) *timestamppb.Timestamp {
	all := d.GetAdjustments()
	if len(all) == 0 || all[len(all)-1].GetStage() != "OVERRIDE" || !slices.Contains(d.GetStates(), "OVERRIDDEN") {
		return nil
	}
	return all[len(all)-1].GetUntilTime()
}

// stateLine tells all states of a target, with the instants of those that come with the clock.
func stateLine(t *setpointv1.Target, now time.Time) string {
	l := newListedTarget(t, now)
	var words []string
	for _, i := range l.states {
		word := listStates[i].name
		switch word {
		case notAsked:
			word += " since " + instant(t.GetNotAskedTime())
		case flapping:
			word += " until " + instant(t.GetFlappingUntilTime())
		case unsure:
			word += " since its override ended at " + instant(overriddenUntil(t.GetLastDecision()))
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// has reports whether it is in one of the states, by name; none: any will do.
func (l *listedTarget) has(names []string) bool {
	return len(names) == 0 || slices.ContainsFunc(l.states, func(i int) bool { return slices.Contains(names, listStates[i].name) })
}

// listOrders are the orders of the list; lists from the server are by name.
var listOrders = map[string]func(a, b *listedTarget) int{
	"urgency": func(a, b *listedTarget) int {
		return cmp.Or(cmp.Compare(a.states[0], b.states[0]), cmp.Compare(b.lack, a.lack))
	},
	"lack": func(a, b *listedTarget) int { return cmp.Compare(b.lack, a.lack) },
	"age":  func(a, b *listedTarget) int { return a.asked.Compare(b.asked) },
	"name": nil,
}

// targetList is targets list.
type targetList struct {
	*targetsCommand
	output *cli.OutputFlag
	states []string
	order  string
}

func newList(of *targetsCommand) *cobra.Command {
	c := &targetList{targetsCommand: of, output: cli.NewOutputFlag(cli.AsTable, asWide, asName, cli.AsJSON, cli.AsYAML)}
	cmd := &cobra.Command{
		Use:   "list [clusters/CLUSTER/namespaces/NAMESPACE]",
		Short: "List targets, the most urgent first; - stands for all clusters or namespaces",
		Long: "List targets, the most urgent first; - stands for all clusters or namespaces.\n\n" +
			"A state says what is the matter, the most urgent first:\n" +
			"  unread      nothing was decided, or the record can't be read\n" +
			"  not-asked   the last decision is more than three of its intervals ago (15 minutes after the first one): its agent does not run or gives way to another\n" +
			"              autoscaler, or its requests are refused\n" +
			"  unreadable  the caller can't read the count\n" +
			"  invalid     the spec or the selector\n" +
			"  failing     a metric can't be read or computed\n" +
			"  refused     the platform refused the last change\n" +
			"  overridden  an override decides the count\n" +
			"  max         the metrics ask for more than the maximum\n" +
			"  flapping    the count turned at least three times within an hour\n" +
			"  limited     a policy limits the rate\n" +
			"  held        a window keeps the count\n" +
			"  unknown     an override decided the count, and has ended since\n" +
			"  min         the metrics ask for fewer than the minimum\n" +
			"  disabled    scaling is, at 0 replicas\n" +
			"  steady      nothing\n\n" +
			"LACK is how many replicas the metrics ask for beyond the desired ones, AGE the time since the last call, METRIC the first metric with\n" +
			"its target. ? is unknown. Long names are shortened in the middle, so that lines fit a terminal, or 120 columns, unless -o wide.",
		Example: "  setpoint targets list --state=max,failing --sort=lack\n  setpoint targets list clusters/eu-1/namespaces/- -o name",
		Args:    cobra.MaximumNArgs(1),
		RunE:    c.run,
	}
	cmd.Flags().VarP(c.output, "output", "o", "form of the output: table, wide, name, json or yaml")
	listing.Limit(cmd, &c.maxTargets, 1000, "targets")
	cmd.Flags().StringSliceVar(&c.states, "state", nil, "list only targets in one of these states")
	cmd.Flags().StringVar(&c.order, "sort", "urgency", "order: urgency, lack, age (the longest first) or name")
	return cmd
}

func (c *targetList) run(cmd *cobra.Command, args []string) error {
	req := &setpointv1.ListTargetsRequest{Parent: listing.Everywhere, WithSpecInUse: true}
	if len(args) > 0 {
		req.Parent = target.Namespaces(args[0])
	}
	for i, state := range c.states { // as the page spells it: Not asked
		c.states[i] = strings.ReplaceAll(strings.ToLower(state), " ", "-")
	}
	order, known := listOrders[c.order]
	if !known {
		return cli.BadInput(fmt.Errorf("--sort: %q is none of urgency, lack, age and name", c.order))
	}
	for _, state := range c.states {
		if !slices.Contains(stateNames(), state) {
			return cli.BadInput(fmt.Errorf("--state: %q is none of %s", state, strings.Join(stateNames(), ", ")))
		}
	}
	if err := checkRequest(req); err != nil {
		return err
	}
	now := time.Now()
	var all listing.List[listedTarget]
	err := c.call(func(client setpointv1.TargetServiceClient) (err error) {
		targets := listing.Targets(cmd.Context(), client, req)
		all, err = listing.Best(c.maxTargets, order, func(size int32, token string) (some []listedTarget, next string, err error) {
			page, next, err := targets(size, token)
			for _, t := range page {
				if l := newListedTarget(t, now); l.has(c.states) {
					some = append(some, l)
				}
			}
			return some, next, err
		})
		if err == nil && (len(all.Items) == 0 || len(c.states) > 0) {
			hintFleets(cmd, client, req.GetParent())
		}
		return err
	})
	if err != nil {
		return err
	}
	defer all.LeftOut(cmd, "targets")
	return c.show(cmd.OutOrStdout(), all.Items, now)
}

// hintFleets says where fleets are, if there are any where there are no targets, or only those in some states are listed. A fleet and its members are no targets of
// their own, and among many other specs the first fleet may be on a late page.
func hintFleets(cmd *cobra.Command, client setpointv1.TargetServiceClient, parent string) {
	ctx, cancel := context.WithTimeout(cmd.Context(), listing.Patience)
	defer cancel()
	for _, err := range listing.Each(listing.Specs(ctx, client, &setpointv1.ListTargetSpecsRequest{Parent: parent, FleetsOnly: true})) {
		if err == nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "there are fleets: setpoint fleet list has them, and what is the matter")
		}
		return
	}
}

// show writes the list in its form.
func (c *targetList) show(w io.Writer, all []listedTarget, now time.Time) error {
	switch c.output.Form {
	case asName:
		for i := range all {
			if _, err := fmt.Fprintln(w, all[i].GetName()); err != nil {
				return err
			}
		}
		return nil
	case cli.AsJSON, cli.AsYAML:
		answer := &setpointv1.ListTargetsResponse{}
		for i := range all {
			answer.Targets = append(answer.Targets, all[i].Target)
		}
		return cli.WriteMessage(w, c.output.Form, answer)
	}
	most := 0
	if width := cli.Terminal(w).Width; width > 0 && c.output.Form != asWide {
		most = max(mostColumns, width)
	}
	return writeColumns(w, c.table(all, now), most)
}

func (c *targetList) table(all []listedTarget, now time.Time) [][]string {
	rows := [][]string{{"TARGET", "STATE", "REPLICAS", "MIN/MAX", "METRIC", "LACK", "AGE"}}
	for i := range all {
		rows = append(rows, all[i].cells(now, c.output.Form == asWide))
	}
	return rows
}

// mostColumns is the least width of the list in a terminal.
const mostColumns = 120

// Limits of the columns of the list, but for -o wide.
const (
	leastName  = 24
	mostPadded = 80 // of a name that is not cut; a longer one moves its own row only
	mostStates = 2
	mostMetric = 18
)

// writeColumns writes rows whose first column has what the others leave of that many columns, 0 for no limit.
func writeColumns(w io.Writer, rows [][]string, most int) error {
	const gap = "   "
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	name, cut := mostPadded, most > 0
	if cut {
		for _, width := range widths[1:] {
			most -= len(gap) + width
		}
		name = max(leastName, most)
	}
	widths[0] = min(widths[0], name)
	var text strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString(gap)
			}
			if cut {
				cell = shortened(cell, widths[i])
			}
			fmt.Fprintf(&line, "%-*s", widths[i], cell)
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// shortened cuts the middle out of a text that is longer.
func shortened(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	end := (most - 1) / 2
	return string(runes[:most-1-end]) + "…" + string(runes[len(runes)-end:])
}

// unknown stands for what nobody knows.
const unknown = "?"

// cells are the columns of the target.
func (l *listedTarget) cells(now time.Time, wide bool) []string {
	var names []string
	for _, i := range l.states {
		names = append(names, listStates[i].name)
	}
	metric := l.metric(wide)
	if !wide {
		names, metric = names[:min(len(names), mostStates)], shortened(metric, mostMetric)
	}
	lack, age := unknown, unknown
	if l.lack >= 0 {
		lack = fmt.Sprint(l.lack)
	}
	if !l.asked.IsZero() {
		age = printable.Age(now.Sub(l.asked))
	}
	return []string{printable.Text(l.GetName()), strings.Join(names, ","), replicas(l.GetLastDecision()), l.bounds(), printable.Text(metric), lack, age}
}

// bounds are those of the spec in use, or else those that the last decision had.
func (l *listedTarget) bounds() string {
	least, most := unknown, unknown
	if spec := l.GetSpecInUse().GetSpec(); spec != nil {
		least, most = fmt.Sprint(validation.MinReplicas(spec)), fmt.Sprint(spec.GetMaxReplicas())
	} else if b := l.GetLastDecision().GetBasis(); b.GetMaxReplicas() > 0 {
		least, most = fmt.Sprint(b.GetMinReplicas()), fmt.Sprint(b.GetMaxReplicas())
	}
	return least + "/" + most
}

// metric is the first metric's value and target, as kubectl has them, and how many more there are; wide:
// all of them.
func (l *listedTarget) metric(wide bool) string {
	values, specs := l.GetStatus().GetCurrentMetrics(), l.GetSpecInUse().GetSpec().GetMetrics()
	var all []string
	for i := range max(len(values), len(specs)) {
		value, target := unknown, unknown
		if i < len(values) {
			value = valueOf(values[i], values[i].GetType(), "current")
		}
		if i < len(specs) {
			target = valueOf(specs[i], specs[i].GetType(), "target")
		}
		all = append(all, value+"/"+target)
	}
	switch {
	case len(all) == 0:
		return unknown
	case wide:
		return strings.Join(all, " ")
	case len(all) > 1:
		return fmt.Sprintf("%s +%d", all[0], len(all)-1)
	}
	return all[0]
}

// valueOf is the utilization, the average or the value that a metric has as current or as target, in this order; ? without one.
func valueOf(metric proto.Message, kind, of string) string {
	m := metric.ProtoReflect()
	for _, name := range []string{strings.ToLower(kind[:min(1, len(kind))]) + kind[min(1, len(kind)):], of} {
		f := m.Descriptor().Fields().ByJSONName(name)
		if f == nil || f.Message() == nil || f.IsList() {
			return unknown
		}
		m = m.Get(f).Message()
	}
	text := func(name string) string {
		if f := m.Descriptor().Fields().ByJSONName(name); m.Has(f) {
			return m.Get(f).String()
		}
		return ""
	}
	if utilization := text("averageUtilization"); utilization != "" {
		return utilization + "%"
	}
	return cmp.Or(printable.Average(text("averageValue")), text("value"), unknown)
}
