package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/internal/files"
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
		Args:    cli.UsageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readJob(cmd.InOrStdin(), args[0])
			if err != nil {
				return cli.BadInput(err)
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
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "# group %q\n%s", *g.Name, translate(g.Scaling)); err != nil {
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

func readJob(in io.Reader, name string) ([]byte, error) {
	if name != "-" {
		return files.Read(name, maxJobBytes)
	}
	text, err := io.ReadAll(io.LimitReader(in, maxJobBytes+1))
	if err == nil && len(text) > maxJobBytes {
		err = fmt.Errorf("the job is larger than %d MiB", maxJobBytes>>20)
	}
	return text, err
}

// translation is a block setpoint in the making.
type translation struct {
	own      []string // lines of the block
	up, down []string // lines of its behavior
	notes    []string // what could not be translated, or differs
	metrics  []string // of the block, as stages name them
	ignored  []string // those that are left out while they fail
}

func (t *translation) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// Defaults of the Nomad Autoscaler.
const (
	theirInterval  = 10 * time.Second
	theirCooldown  = 5 * time.Minute
	theirThreshold = 0.01
)

// translate returns a scaling block in HCL.
func translate(scaling *api.ScalingPolicy) string {
	t := &translation{}
	policy := scaling.Policy
	interval, cooldown := durationOf(policy["evaluation_interval"], theirInterval), durationOf(policy["cooldown"], theirCooldown)
	tolerance := theirThreshold
	for _, name := range slices.Sorted(maps.Keys(labels(policy["check"]))) {
		t.check(name, one(labels(policy["check"])[name]), interval, &tolerance)
	}
	t.own = append(t.own, fmt.Sprintf("period = %q", interval))
	t.down = append([]string{fmt.Sprintf("stabilizationWindowSeconds = %d", int(cooldown.Seconds()))}, t.down...)
	t.note("cooldown of %s: Setpoint does not stop after a change. The window of scaleDown is as long; to slow scaling up, set scaleUp.stabilizationWindowSeconds.", cooldown)
	for _, lines := range []*[]string{&t.up, &t.down} {
		*lines = append(*lines, fmt.Sprintf("tolerance = %q", number(tolerance)))
	}
	for _, key := range slices.Sorted(maps.Keys(policy)) {
		switch key {
		case "check", "cooldown", "evaluation_interval":
		case "on_check_error":
			t.onError("on_check_error", text(policy[key]), t.metrics)
		case "target":
			for plugin := range labels(policy[key]) {
				if plugin != "nomad" && plugin != "nomad-target" {
					t.note("target %q: Setpoint scales task groups only, no nodes.", plugin)
				}
			}
		case "schedule":
			t.note("schedule: %s", ofSchedules)
		default:
			t.note("%s: there is no equal.", key)
		}
	}
	return t.block(scaling)
}

// ofSchedules is what there is for a policy or a check that counts at certain times.
const ofSchedules = "metrics count all day; for more or fewer allocations at certain times see stages.schedules, which move the minimum and the maximum."

// onError translates what is done about checks that fail.
func (t *translation) onError(of, do string, metrics []string) {
	if do != "ignore" {
		t.note("%s: a check that fails never lowers the count, as with the HorizontalPodAutoscaler.", of)
		return
	}
	for _, metric := range metrics {
		if !slices.Contains(t.ignored, metric) {
			t.ignored = append(t.ignored, metric)
		}
	}
}

// stages are the block stages; empty: there are none.
func (t *translation) stages() []string {
	var fallbacks []string
	for _, metric := range t.ignored {
		fallbacks = append(fallbacks, fmt.Sprintf("fallbacks {\n  metric          = %q\n  failureDuration = \"0s\"\n  ignore          = true\n}", metric))
	}
	if fallbacks == nil {
		return nil
	}
	return []string{"stages {\n" + indent(fallbacks) + "}"}
}

// check translates one check.
func (t *translation) check(name string, check map[string]any, interval time.Duration, tolerance *float64) {
	source, query := text(check["source"]), text(check["query"])
	strategies := labels(check["strategy"])
	if check["group"] != nil {
		t.note("check %q: group: there is no equal.", name)
	}
	if check["schedule"] != nil {
		t.note("check %q: schedule: %s", name, ofSchedules)
	}
	before := len(t.metrics)
	defer func() {
		if do := text(check["on_error"]); do != "" {
			t.onError(fmt.Sprintf("check %q: on_error", name), do, t.metrics[before:])
		}
	}()
	for _, strategy := range slices.Sorted(maps.Keys(strategies)) {
		keys := one(strategies[strategy])
		target, _ := strconv.ParseFloat(text(keys["target"]), 64)
		direct := map[string]string{"avg_cpu-allocated": "cpu", "avg_memory-allocated": "memory"}[query]
		switch {
		case strategy != "target-value" && strategy != "pass-through":
			t.note("check %q: strategy %q: there is no equal.", name, strategy)
			continue
		case source == "" || source == "nomad-apm":
			if direct == "" || strategy != "target-value" {
				t.note("check %q: query %q of nomad-apm: Setpoint has the average percentage of what tasks ask for; set cpu or memory to what you want of that.", name, query)
				continue
			}
			t.own = append(t.own, fmt.Sprintf("%s = %s", direct, number(max(1, float64(int(target+0.5))))))
			t.metrics = append(t.metrics, "Resource:"+direct)
		default:
			key, value := "value", number(target)
			if strategy == "pass-through" {
				key, value = "average", "1"
			}
			t.own = append(t.own, fmt.Sprintf("metric %q {\n  source = %q\n  query  = %q\n  %s = %s\n}", name, source, query, key, value))
			t.metrics = append(t.metrics, "External:"+name)
			t.note("check %q: --sources-file of the agent must have a source %q; there are kinds prometheus, http and redis.", name, source)
			if strategy == "target-value" {
				t.note("check %q: if the query is a total, average, a target for each allocation, is steadier than value.", name)
			}
		}
		if check["query_window"] != nil {
			t.note("check %q: query_window: write the window into the query.", name)
		}
		if threshold, err := strconv.ParseFloat(text(keys["threshold"]), 64); err == nil {
			*tolerance = threshold
		}
		for key, lines := range map[string]*[]string{"max_scale_up": &t.up, "max_scale_down": &t.down} {
			if most := text(keys[key]); most != "" {
				*lines = append(*lines, fmt.Sprintf("policies {\n  type          = \"Pods\"\n  value         = %s\n  periodSeconds = %d\n}", most, max(1, int(interval.Seconds()))))
			}
		}
	}
}

// block is the scaling block as text.
func (t *translation) block(scaling *api.ScalingPolicy) string {
	var out strings.Builder
	for _, note := range t.notes {
		fmt.Fprintf(&out, "# %s\n", note)
	}
	behavior := "behavior {\n" + indent("scaleUp {\n"+indent(t.up)+"}\nscaleDown {\n"+indent(t.down)+"}\n") + "}"
	own := "setpoint {\n" + indent(slices.Concat(t.own, []string{behavior}, t.stages())) + "}\n"
	bounds := ""
	if scaling.Min != nil {
		bounds += fmt.Sprintf("min = %d\n", *scaling.Min)
	}
	if scaling.Max != nil {
		bounds += fmt.Sprintf("max = %d\n", *scaling.Max)
	}
	if scaling.Enabled != nil && !*scaling.Enabled {
		bounds += "enabled = false\n"
	}
	return out.String() + "scaling {\n" + indent(bounds+"policy {\n"+indent(own)+"}\n") + "}\n"
}

// indent indents lines; of a list each entry is one or more.
func indent[T string | []string](lines T) string {
	all := []string{}
	switch lines := any(lines).(type) {
	case string:
		all = strings.Split(strings.TrimSuffix(lines, "\n"), "\n")
	case []string:
		if len(lines) > 0 {
			all = strings.Split(strings.Join(lines, "\n"), "\n")
		}
	}
	var out strings.Builder
	for _, line := range all {
		out.WriteString("  " + line + "\n")
	}
	return out.String()
}

// labels are blocks by their labels, as Nomad has them in JSON.
func labels(from any) map[string]any {
	out := map[string]any{}
	list, ok := from.([]any)
	if !ok {
		list = []any{from}
	}
	for _, each := range list {
		if named, ok := each.(map[string]any); ok {
			maps.Copy(out, named)
		}
	}
	return out
}

// one is a block's keys.
func one(from any) map[string]any {
	if list, ok := from.([]any); ok && len(list) == 1 {
		from = list[0]
	}
	keys, _ := from.(map[string]any)
	return keys
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

func durationOf(from any, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(text(from)); err == nil && d > 0 {
		return d
	}
	return otherwise
}
