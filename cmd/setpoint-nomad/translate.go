package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/hashicorp/nomad/api"
	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/clients/agent/pace"
	"github.com/setpoint-dev/setpoint/clients/nomad"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// maxJobBytes bounds a job file.
const maxJobBytes = 16 << 20

func newTranslate() *cobra.Command {
	return &cobra.Command{
		Use:   "translate FILE",
		Short: "Translate the policies of the Nomad Autoscaler in a job",
		Long: `Print, for each group of a job whose policy has checks of the Nomad Autoscaler, a scaling block with
a block setpoint in their place, and as comments what can't be translated. FILE is a job in JSON,
as "nomad job run -output JOB.hcl" and "nomad job inspect JOB" print it; - is the standard input.
Nothing is asked or changed.`,
		Example: "  nomad job inspect web | setpoint-nomad translate -",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := cli.ReadWithin(cmd, args[0], maxJobBytes)
			if err != nil {
				return err
			}
			var file struct{ Job *api.Job }
			if err := json.Unmarshal(text, &file); err != nil || file.Job == nil {
				return cli.BadInput(fmt.Errorf("%s: not a job as nomad job run -output prints it, {\"Job\": {…}}: %w", args[0], errOrNone(err)))
			}
			found := false
			for _, g := range file.Job.TaskGroups {
				if g == nil || g.Name == nil || g.Scaling == nil || g.Scaling.Policy["check"] == nil {
					continue
				}
				found = true
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "# group %q\n%s", *g.Name, translate(g)); err != nil {
					return err
				}
			}
			if !found {
				return cli.BadInput(fmt.Errorf("%s: no group of the job has a policy with checks", args[0]))
			}
			return nil
		},
	}
}

func errOrNone(err error) error {
	if err == nil {
		return fmt.Errorf("there is no Job")
	}
	return err
}

// translation is a block setpoint in the making.
type translation struct {
	notes   []string // what could not be translated, or differs
	metrics []*translated
}

// translated is a metric with the checks that it stands for.
type translated struct {
	name       string  // as stages name it
	own        entry   // of the block
	fails      bool    // a check of it stops the others when it fails
	threshold  float64 // the smallest
	up, down   *int64  // max_scale_up: the largest; max_scale_down: the smallest; nil: no limit
	percentage float64 // of cpu and memory
}

func (t *translation) note(format string, args ...any) {
	// A job's texts may have characters that a terminal acts on.
	if text := printable.Text(strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")); !slices.Contains(t.notes, text) {
		t.notes = append(t.notes, text)
	}
}

// Defaults of the Nomad Autoscaler.
const (
	theirInterval  = 10 * time.Second
	theirCooldown  = 5 * time.Minute
	theirThreshold = 0.01
	failWord       = "fail"
)

// Bounds of what a spec may say.
const (
	longestWindow = time.Hour
	longestPeriod = 30 * time.Minute // of a policy
)

// translate returns a scaling block in HCL after comments, and only comments if no check has an
// equal, because a block setpoint without metrics would mean 80 % of cpu.
func translate(g *api.TaskGroup) string {
	t, policy := &translation{}, g.Scaling.Policy
	interval, cooldown := t.duration(policy, "evaluation_interval", theirInterval), t.duration(policy, "cooldown", theirCooldown)
	onError := text(policy["on_check_error"])
	for _, check := range blocks(policy["check"]) {
		t.check(check.label, check.keys, cmp.Or(text(check.keys["on_error"]), onError) == failWord)
	}
	for _, key := range slices.Sorted(maps.Keys(policy)) {
		switch key {
		case "check", "cooldown", "evaluation_interval", "on_check_error":
		case "target":
			for _, target := range blocks(policy[key]) {
				if target.label != "nomad" && target.label != "nomad-target" {
					t.note("target %q: Setpoint scales task groups only, no nodes.", target.label)
				}
			}
		case "schedule":
			t.note("schedule: %s", ofSchedules)
		default:
			t.note("%s: there is no equal.", key)
		}
	}
	if len(t.metrics) == 0 {
		t.note("No check has an equal, so there is no block setpoint: without metrics it would mean 80 %% of cpu.")
		return t.comments()
	}
	setpoint := t.setpoint(interval, cooldown)
	scaling := t.bounds(g)
	if err := refusal(g.Scaling, scaling, setpoint); err != nil {
		t.note("There is no block setpoint, because it would be refused: %v", err)
		return t.comments()
	}
	scaling = append(scaling, entry{key: "policy", value: []entry{setpoint}})
	return t.comments() + hcl([]entry{{key: "scaling", value: scaling}}, "")
}

// ofSchedules is what there is for a policy or a check that counts at certain times.
const ofSchedules = "metrics count all day; for more or fewer allocations at certain times see stages.schedules, which move the minimum and the maximum."

// check translates one check.
func (t *translation) check(name string, check map[string]any, fails bool) {
	source, query := text(check["source"]), text(check["query"])
	note := func(format string, args ...any) { t.note("check %q: "+format, append([]any{name}, args...)...) }
	for _, other := range []struct{ key, meaning string }{
		{"group", "there is no equal."}, {"schedule", ofSchedules}, {"query_window_offset", "write the offset into the query."},
		{"query_window", "the latest value counts; of a metric of a source, write the window into the query."},
	} {
		if set := check[other.key]; set != nil && set != "instant" {
			note("%s: %s", other.key, other.meaning)
		}
	}
	strategies := blocks(check["strategy"])
	if len(strategies) != 1 {
		note("it has %d strategies, not 1.", len(strategies))
		return
	}
	strategy, keys := strategies[0].label, strategies[0].keys
	target, err := strconv.ParseFloat(text(keys["target"]), 64)
	direct := map[string]string{"avg_cpu-allocated": "cpu", "avg_memory-allocated": "memory"}[query]
	usage := source == "" || source == "nomad-apm"
	switch {
	case strategy != "target-value" && strategy != "pass-through":
		note("strategy %q: there is no equal.", strategy)
		return
	case usage && (direct == "" || strategy != "target-value"):
		note("query %q of nomad-apm: Setpoint has the average percentage of what tasks ask for; set cpu or memory to what you want of that.", query)
		return
	case strategy == "pass-through":
		target = 1
	case err != nil || target < 0 || math.IsInf(target, 0) || math.IsNaN(target):
		note("target %q: it is no number from 0.", text(keys["target"]))
		return
	case target == 0:
		target = 1
		note("target 0: the Nomad Autoscaler multiplies the count by the metric then, which is a target of 1.")
	}
	m := &translated{fails: fails, threshold: theirThreshold, percentage: target}
	m.limits(keys, note)
	if fails {
		note("%s: if it fails nothing is scaled there; here it never lowers the count, but other metrics may raise it, as with the HorizontalPodAutoscaler.", failWord)
	}
	if usage {
		if whole := max(1, math.Floor(target+0.5)); whole != target {
			m.percentage = whole
			note("target %s: %s is a whole percentage here: %s.", number(target), direct, number(whole))
		}
		m.name, m.own = "Resource:"+direct, entry{key: direct, value: m.percentage}
		t.add(m, note)
		return
	}
	m.name = "External:" + name
	if i := 2; slices.ContainsFunc(t.metrics, m.same) {
		for ; slices.ContainsFunc(t.metrics, m.same); i++ {
			m.name = fmt.Sprintf("External:%s-%d", name, i)
		}
		note("another check has this name: the metric is %q.", m.name[len("External:"):])
	}
	if _, digits, _ := strings.Cut(number(target), "."); len(digits) > 3 {
		note("target %s: a target has thousandths here, and is rounded up.", number(target))
	}
	kind := map[bool]string{true: "average", false: "value"}[strategy == "pass-through"]
	m.own = entry{key: "metric", label: m.name[len("External:"):], value: []entry{{key: "source", value: source}, {key: "query", value: query}, {key: kind, value: target}}}
	note("--sources-file of the agent must have a source %q; there are kinds prometheus, http and redis.", source)
	if strategy == "target-value" {
		note("if the query is a total, average, a target for each allocation, is steadier than value.")
	}
	t.add(m, note)
}

func (m *translated) same(other *translated) bool { return m.name == other.name }

// limits reads the threshold and what a strategy says of single steps.
func (m *translated) limits(keys map[string]any, note func(string, ...any)) {
	if set := text(keys["threshold"]); set != "" {
		threshold, err := strconv.ParseFloat(set, 64)
		if err != nil || threshold < 0 || threshold > 1 {
			note("threshold %q: it is no number from 0 to 1.", set)
		} else {
			m.threshold = threshold
		}
	}
	for _, limit := range []struct {
		key string
		to  **int64
	}{{"max_scale_up", &m.up}, {"max_scale_down", &m.down}} {
		if set := text(keys[limit.key]); set != "" {
			most, err := strconv.ParseInt(set, 10, 32)
			if err != nil || most < 0 {
				note("%s %q: it is no whole number from 0.", limit.key, set)
			} else {
				*limit.to = &most
			}
		}
	}
}

// add adds a metric, or what a further check says of one that there is.
func (t *translation) add(m *translated, note func(string, ...any)) {
	at := slices.IndexFunc(t.metrics, m.same)
	if at < 0 {
		t.metrics = append(t.metrics, m)
		return
	}
	before := t.metrics[at]
	lower := min(before.percentage, m.percentage)
	note("another check has a target of %s, too: the lower one asks for more, and counts: %s.", m.own.key, number(lower))
	before.percentage, before.own.value, before.fails = lower, lower, before.fails || m.fails
	before.threshold = min(before.threshold, m.threshold)
	before.up, before.down = larger(before.up, m.up), smaller(before.down, m.down)
}

// larger and smaller are those of two limits, of which nil is none.
func larger(a, b *int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	return new(max(*a, *b))
}

func smaller(a, b *int64) *int64 {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return new(min(*a, *b))
}

// setpoint is the block setpoint of the metrics. What checks say one by one is the group's here.
func (t *translation) setpoint(interval, cooldown time.Duration) entry {
	slices.SortFunc(t.metrics, func(a, b *translated) int { return strings.Compare(a.name, b.name) })
	var own []entry
	first := t.metrics[0]
	threshold, up, down := first.threshold, first.up, first.down
	differ := map[string]bool{}
	for _, m := range t.metrics {
		own = append(own, m.own)
		differ["threshold"] = differ["threshold"] || m.threshold != first.threshold
		differ["max_scale_up"] = differ["max_scale_up"] || !reflect.DeepEqual(m.up, first.up)
		differ["max_scale_down"] = differ["max_scale_down"] || !reflect.DeepEqual(m.down, first.down)
		threshold, up, down = min(threshold, m.threshold), larger(up, m.up), smaller(down, m.down)
	}
	for _, merged := range []struct{ key, how string }{
		{"threshold", "the smallest counts"}, {"max_scale_up", "the largest counts, and none if a check has none"}, {"max_scale_down", "the smallest counts"},
	} {
		if differ[merged.key] {
			t.note("%s: checks differ, and here there is one for all metrics: %s.", merged.key, merged.how)
		}
	}
	if up == nil {
		t.note("Without max_scale_up the Nomad Autoscaler scales up at once; here by 4 allocations or 100 %% in 15s, unless behavior.scaleUp says more.")
	}
	t.note("cooldown of %s: Setpoint does not stop after a change. The window of scaleDown is as long; to slow scaling up, set scaleUp.stabilizationWindowSeconds.", cooldown)
	period := t.capped("evaluation_interval", interval, pace.MinPeriod, pace.MaxPeriod)
	step := t.capped("the period of max_scale_up and max_scale_down", period, time.Second, longestPeriod)
	window := t.capped("the window of scaleDown", cooldown, 0, longestWindow)
	own = append(own, entry{key: "period", value: period.String()}, entry{key: "behavior", value: []entry{
		{key: "scaleUp", value: append(stepped(up, step), entry{key: "tolerance", value: number(threshold)})},
		{key: "scaleDown", value: append(append([]entry{{key: "stabilizationWindowSeconds", value: window.Seconds()}}, stepped(down, step)...), entry{key: "tolerance", value: number(threshold)})},
	}})
	if stages := t.stages(); stages != nil {
		own = append(own, entry{key: "stages", value: stages})
	}
	return entry{key: nomad.Key, value: own}
}

// capped brings a duration into the bounds that there are here, in whole seconds.
func (t *translation) capped(of string, d, least, most time.Duration) time.Duration {
	whole := min(max(d, least), most).Round(time.Second)
	if whole != d {
		t.note("%s: %s becomes %s here.", of, d, whole)
	}
	return whole
}

// stepped is the most that one step changes; none with a limit of 0.
func stepped(most *int64, period time.Duration) []entry {
	switch {
	case most == nil:
		return nil
	case *most == 0:
		return []entry{{key: "selectPolicy", value: "Disabled"}}
	}
	return []entry{{key: "policies", value: []entry{{key: "type", value: "Pods"}, {key: "value", value: float64(*most)}, {key: "periodSeconds", value: period.Seconds()}}}}
}

// stages leaves out metrics that fail, as the Nomad Autoscaler does unless told otherwise. A
// single metric needs no stage: if no metric is left, nothing is scaled there nor here.
func (t *translation) stages() []entry {
	var out []entry
	for _, m := range t.metrics {
		if !m.fails && len(t.metrics) > 1 {
			out = append(out, entry{key: "fallbacks", value: []entry{{key: "metric", value: m.name}, {key: "failureDuration", value: "0s"}, {key: "ignore", value: true}}})
		}
	}
	return out
}

// bounds are the keys of the scaling block.
func (t *translation) bounds(g *api.TaskGroup) []entry {
	var out []entry
	outside := slices.ContainsFunc(t.metrics, func(m *translated) bool { return m.own.key == "metric" })
	switch count, least := g.Count, g.Scaling.Min; {
	case !outside && (least != nil && *least == 0 || least == nil && count != nil && *count == 0):
		t.note("min is 1 here, not 0: from 0 only a block metric leads up again.")
		out = append(out, entry{key: "min", value: 1.0})
	case least != nil:
		out = append(out, entry{key: "min", value: float64(*least)})
	}
	if g.Scaling.Max != nil {
		out = append(out, entry{key: "max", value: float64(*g.Scaling.Max)})
	}
	if g.Scaling.Enabled != nil && !*g.Scaling.Enabled {
		out = append(out, entry{key: "enabled", value: false})
	}
	return out
}

// refusal is why the agent or the service would refuse a block.
func refusal(scaling *api.ScalingPolicy, bounds []entry, setpoint entry) error {
	judged := &api.ScalingPolicy{Max: scaling.Max, Policy: tree([]entry{setpoint})}
	if i := slices.IndexFunc(bounds, func(e entry) bool { return e.key == "min" }); i >= 0 {
		judged.Min = new(int64(bounds[i].value.(float64)))
	} else {
		judged.Min = new(int64(1)) // Nomad takes the count
	}
	policy, hold := nomad.ParsePolicy(judged)
	if hold != nil {
		return errors.New(hold.Message)
	}
	violations := slices.Concat(validation.Structure(policy.Spec), validation.Structure(policy.Stages))
	in := &recommender.Input{}
	var more []validation.Violation
	in.Spec, in.Options, more = conversion.Spec(policy.Spec, policy.Options, recommender.DefaultOptions())
	violations = append(violations, more...)
	_, more = conversion.Stages(policy.Spec, policy.Stages, in)
	if violations = append(violations, more...); len(violations) > 0 {
		return errors.New(violations[0].String())
	}
	return nil
}

func (t *translation) comments() string {
	var out strings.Builder
	for _, note := range t.notes {
		fmt.Fprintf(&out, "# %s\n", note)
	}
	return out.String()
}

// entry is an attribute of HCL, or a block if its value is []entry.
type entry struct {
	key, label string
	value      any
}

// hcl is entries as text.
func hcl(entries []entry, indent string) string {
	var out strings.Builder
	for i, e := range entries {
		if inner, block := e.value.([]entry); block {
			label := ""
			if e.label != "" {
				label = " " + quoted(e.label)
			}
			fmt.Fprintf(&out, "%s%s%s {\n%s%s}\n", indent, e.key, label, hcl(inner, indent+"  "), indent)
			continue
		}
		fmt.Fprintf(&out, "%s%-*s = %s\n", indent, widest(entries, i), e.key, literal(e.value))
	}
	return out.String()
}

// widest is the length of the longest key among the attributes around one, which are aligned.
func widest(entries []entry, at int) int {
	width := 0
	block := func(e entry) bool { _, is := e.value.([]entry); return is }
	for i := at; i >= 0 && !block(entries[i]); i-- {
		width = max(width, len(entries[i].key))
	}
	for i := at; i < len(entries) && !block(entries[i]); i++ {
		width = max(width, len(entries[i].key))
	}
	return width
}

func literal(value any) string {
	switch value := value.(type) {
	case string:
		return quoted(value)
	case float64:
		return number(value)
	}
	return fmt.Sprint(value)
}

// untemplated escapes what begins a template in a text of HCL.
var untemplated = strings.NewReplacer("${", "$${", "%{", "%%{")

// quoted is a text in HCL, without templates.
func quoted(text string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range untemplated.Replace(strings.ToValidUTF8(text, "\uFFFD")) {
		switch {
		case r == '"' || r == '\\':
			out.WriteRune('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case unicode.IsControl(r):
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
	return out.String()
}

// tree is entries as Nomad has them in JSON.
func tree(entries []entry) map[string]any {
	out := map[string]any{}
	for _, e := range entries {
		inner, block := e.value.([]entry)
		if !block {
			out[e.key] = e.value
			continue
		}
		one := tree(inner)
		if e.label != "" {
			one = map[string]any{e.label: []any{one}}
		}
		list, _ := out[e.key].([]any)
		out[e.key] = append(list, one)
	}
	return out
}

// labelled is a block with a label.
type labelled struct {
	label string
	keys  map[string]any
}

// blocks are blocks with labels, as Nomad has them in JSON: in lists, and blocks of one label in a
// list of their own.
func blocks(from any) []labelled {
	var out []labelled
	for _, each := range listed(from) {
		named, _ := each.(map[string]any)
		for _, label := range slices.Sorted(maps.Keys(named)) {
			for _, one := range listed(named[label]) {
				keys, _ := one.(map[string]any)
				out = append(out, labelled{label, keys})
			}
		}
	}
	return out
}

func listed(from any) []any {
	if list, ok := from.([]any); ok {
		return list
	}
	return []any{from}
}

func text(from any) string {
	switch value := from.(type) {
	case string:
		return value
	case float64:
		return number(value)
	}
	return ""
}

func number(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }

// duration is that of a key, or the default.
func (t *translation) duration(policy map[string]any, key string, otherwise time.Duration) time.Duration {
	d, err := time.ParseDuration(text(policy[key]))
	if policy[key] != nil && (err != nil || d < 0) {
		t.note("%s %q: it is no duration such as 1m, so its default counts.", key, text(policy[key]))
	}
	if err != nil || d <= 0 {
		return otherwise
	}
	return d
}
