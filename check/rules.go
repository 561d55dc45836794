package check

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/lint"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
	"github.com/setpoint-dev/setpoint/replay"
)

// RulesFile is where a repository has its rules.
const RulesFile = ".setpoint/check.yaml"

// Page is the address of the rules' page; a rule's anchor is its ID.
const Page = "https://github.com/setpoint-dev/setpoint/blob/main/docs/reference/check.md"

// Level says what a broken rule does.
type Level string

// The levels: the check fails, it only says so, or the rule is off.
const (
	Error   Level = "error"
	Warning Level = "warning"
	Off     Level = "off"
)

// Rule is one thing that a change is measured by.
type Rule struct {
	// Key is the rule's name in check.yaml, ID in outputs and its anchor on the page.
	Key, ID string
	// Title says what must hold, with %s for the limit; empty limits have no number.
	Title string
	// Why says what is measured, and Mend what to do.
	Why, Mend string
	// Default is the limit without a file, from Least to Most, and Level the level.
	Default, Least, Most float64
	Level                Level
}

// limitless reports whether a rule has a level only.
func (r *Rule) limitless() bool { return r.Least == r.Most }

// Rules are all of them, as the page has them.
var Rules = []Rule{
	{"replicaHours", "replica-hours", "at most %s %% more replica hours than the old spec",
		"The integral of the count over the recorded time, of the new spec against the old one, in the closed loop. Where the load was not measured for more than a tenth of that time, in the open loop. A negative limit demands a saving.",
		"Look at the changes in the plot; allow the cost in the rule if it is meant.", 5, -100, 1e6, Error},
	{"usedReplicas", "used-replicas", "maxReplicas is no less than the count used at p%s of the recorded time",
		"The limit is a percentile of the recorded time. The count that was enough for that share of it must still be possible. No model is involved.",
		"Raise `maxReplicas`, or lower the percentile.", 99, 0.1, 100, Error},
	{"changesPerHour", "changes-per-hour", "at most %s changes of the count in any hour",
		"The most changes that the new spec makes within 60 minutes, in the closed loop.",
		"Lengthen `behavior.scaleDown.stabilizationWindowSeconds`, or widen the tolerance.", 30, 0, 1e5, Error},
	{"atMaximum", "at-maximum", "at most %s %% of the time at maxReplicas",
		"The share of the recorded time at which the count is the maximum, in the closed loop, or in the open loop as for `replicaHours`. Nothing is known of what is needed beyond it. Not looked at where `minReplicas` equals `maxReplicas`.",
		"Raise `maxReplicas`.", 5, 0, 100, Error},
	{"shortOfCapacity", "short-of-capacity", "at most %s %% of the time short of capacity",
		"The share of the recorded time in which the measured load is more than the ready pods' CPU limits allow, in the closed loop. Not known without CPU limits in the recording or in `assume` for more than a tenth of the time.",
		"Lower the target, raise `minReplicas`, or let it scale up faster.", 1, 0, 100, Error},
	{"different", "different", "another count at no more than %s %% of the recorded evaluations",
		"Each recorded evaluation on its own, with its readings and its count: the open loop, which involves no model. A limit of 0 demands a spec that decides the same.",
		"Look at the first difference; raise the limit if it is meant.", 0, 0, 100, Off},
	{"modelMiss", "model-miss", "the model misses the recorded replica hours by at most %s %%",
		"The closed loop is asked to reproduce what really happened under the spec of the recording, with all pods modelled. What it misses there it may miss of the new spec, too.",
		"Set `assume.idle`; use a longer recording; judge by the open loop.", 10, 0, 1e6, Warning},
	{"history", "history", "at least %s hours of recordings",
		"The recorded time of this autoscaler that the check could use. With less, or without any, the figures above are not checked by history, only by lint. It fails at any level but `off` if the change removes or alters a recording that can't be read as it was before.",
		"Record it: `setpoint targets export`, or an agent with `--record`.", 1, 0, 1e5, Warning},
	{"removed", "removed", "autoscalers kept",
		"An autoscaler of the old files that is in none of the new ones. The count then stays as it is. Only looked at with `--git`.",
		"Keep it, or set the level if it is meant.", 0, 0, 0, Warning},
	{"unchecked", "unchecked", "changed files checked",
		"A changed file that seems to have an autoscaler and can't be checked: a template, a patch of Kustomize, a file that is too large. Others that may scale something are named in one line: values of a chart, ScaledObjects of KEDA, links, manifests in UTF-16 or under another suffix. A manifest that is invalid is always an error.",
		"Render it (`helm template`, `kubectl kustomize`) and give both versions with `--old` and `--new`, or add it to `ignore`.", 0, 0, 0, Warning},
}

// Limit is a rule as a team sets it.
type Limit struct {
	Limit float64
	Level Level
}

// Settings are what check.yaml says. Start with [Defaults].
type Settings struct {
	limits map[string]Limit
	// targets are rules of some autoscalers; the first that matches counts.
	targets []override
	// FailOn is the least severity of lint that fails, empty: none does. Existing reports whether findings
	// that the old spec has, too, count. LintIgnore are rules of lint that are left out.
	FailOn     lint.Severity
	Existing   bool
	LintIgnore []string
	// Recordings are files and folders, Ignore patterns of paths that are not looked at.
	Recordings, Ignore []string
	Assumed            replay.Assumed
}

type override struct {
	match  string
	limits map[string]Limit
}

// Defaults are the settings without a file.
func Defaults() *Settings {
	s := &Settings{limits: make(map[string]Limit), FailOn: lint.Warning}
	for i := range Rules {
		s.limits[Rules[i].Key] = Limit{Rules[i].Default, Rules[i].Level}
	}
	return s
}

// Bounds of check.yaml.
const (
	maxTargets = 200
	maxList    = 200
)

// never is no severity of lint.
const never = "never"

// ReadSettings reads check.yaml; the error has all that is wrong with it, a line each.
func ReadSettings(name string, data []byte) (*Settings, error) {
	if len(data) > document.MaxBytes {
		return nil, fmt.Errorf("%s: is longer than %d bytes", name, document.MaxBytes)
	}
	s := Defaults()
	err := document.ReadOrNone(name, data, func(root document.Value) {
		var targets document.Value
		root.Map(
			document.Optional("rules", func(v document.Value) { readLimits(v, s.limits, nil) }),
			document.Optional("lint", s.readLint),
			document.Optional("recordings", func(v document.Value) { s.Recordings = texts(v) }),
			document.Optional("ignore", func(v document.Value) { s.Ignore = patterns(v) }),
			document.Optional("assume", s.readAssumed),
			document.Optional("targets", func(v document.Value) { targets = v }),
		)
		if targets != (document.Value{}) { // what they leave out is the rules', wherever these stand
			s.readTargets(targets)
		}
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// readLimits reads rules. Of what is left out before has the value, nil: that in into.
func readLimits(v document.Value, into, before map[string]Limit) {
	var fields []document.Field
	for i := range Rules {
		r := &Rules[i]
		fields = append(fields, document.Optional(r.Key, func(v document.Value) {
			l, there := into[r.Key]
			if !there {
				l = before[r.Key]
			}
			l.read(v, r)
			into[r.Key] = l
		}))
	}
	v.Map(fields...)
}

// read reads a rule: its limit, its level, or a map with both. A limit alone switches on what is off.
func (l *Limit) read(v document.Value, r *Rule) {
	switch {
	case v.IsMap():
		set, leveled := false, false
		v.Map(
			document.Optional("limit", func(v document.Value) { l.number(v, r); set = true }),
			document.Optional("level", func(v document.Value) { l.level(v); leveled = true }),
		)
		if set && !leveled && l.Level == Off {
			l.Level = Error
		}
	case v.IsNumber():
		if l.number(v, r); l.Level == Off {
			l.Level = Error
		}
	case r.limitless():
		l.level(v)
	default:
		l.levelOr(v, fmt.Sprintf("a number between %g and %g, ", r.Least, r.Most))
	}
}

func (l *Limit) number(v document.Value, r *Rule) {
	text, ok := v.Scalar(document.Number)
	if !ok {
		return
	}
	n, err := strconv.ParseFloat(text, 64)
	switch {
	case r.limitless():
		v.Refuse("has no limit, only a level: error, warning or off")
	case err != nil || !(n >= r.Least && n <= r.Most):
		v.Refuse("must be a number between %g and %g", r.Least, r.Most)
	default:
		l.Limit = n
	}
}

func (l *Limit) level(v document.Value) { l.levelOr(v, "") }

// levelOr reads a level; or is what else the value could be.
func (l *Limit) levelOr(v document.Value, or string) {
	text, ok := v.Text()
	switch level := Level(text); {
	case !ok:
	case level == Error || level == Warning || level == Off:
		l.Level = level
	default:
		v.Refuse("must be %serror, warning or off", or)
	}
}

func (s *Settings) readLint(v document.Value) {
	v.Map(
		document.Optional("failOn", func(v document.Value) {
			text, ok := v.Text()
			switch severity := lint.Severity(text); {
			case !ok:
			case text == never:
				s.FailOn = ""
			case slices.Contains(lint.Severities, severity):
				s.FailOn = severity
			default:
				v.Refuse("must be error, warning, note or never")
			}
		}),
		document.Optional("existing", func(v document.Value) { s.Existing, _ = v.Bool() }),
		document.Optional("ignore", func(v document.Value) {
			v.ListOrNone(func(_ int, v document.Value) {
				text, ok := v.Text()
				if !ok {
					return
				}
				known, err := lint.KnownRules(text)
				if err != nil {
					v.Refuse("%v", err)
				}
				s.LintIgnore = append(s.LintIgnore, known...)
			})
		}),
	)
}

func (s *Settings) readAssumed(v document.Value) {
	v.Map(
		document.Optional("cpuLimit", func(v document.Value) { s.Assumed.CPULimit = milli(v, 1) }),
		document.Optional("idle", func(v document.Value) {
			idle := func(resource string) document.Field {
				return document.Optional(resource, func(v document.Value) {
					s.Assumed.Idle = append(s.Assumed.Idle, recommender.ResourceUsage{Resource: resource, Milli: milli(v, 0)})
				})
			}
			v.Map(idle("cpu"), idle("memory"))
		}),
	)
}

// milli reads a quantity in milli-units.
func milli(v document.Value, least int64) int64 {
	text, ok := v.Raw()
	if !ok {
		return 0
	}
	m, inRange, err := quantity.ParseMilli(text)
	if err != nil || !inRange || m < least {
		v.Refuse(`must be a quantity, such as "500m" or "100Mi"`)
	}
	return m
}

func (s *Settings) readTargets(v document.Value) {
	v.ListOrNone(func(i int, v document.Value) {
		if i >= maxTargets {
			if i == maxTargets {
				v.Refuse("there are more than %d targets", maxTargets)
			}
			return
		}
		o := override{limits: make(map[string]Limit)}
		v.Map(
			document.Required("match", func(v document.Value) {
				var ok bool
				if o.match, ok = v.Text(); !ok {
					return
				}
				if _, err := path.Match(o.match, ""); err != nil || strings.Count(o.match, "/") != 1 {
					v.Refuse("must be NAMESPACE/NAME, in which * stands for any text")
				}
			}),
			document.Required("rules", func(v document.Value) { readLimits(v, o.limits, s.limits) }),
		)
		s.targets = append(s.targets, o)
	})
}

func texts(v document.Value) (all []string) {
	v.ListOrNone(func(i int, v document.Value) {
		if i == maxList {
			v.Refuse("there are more than %d", maxList)
		}
		if text, ok := v.Text(); ok && i < maxList {
			all = append(all, text)
		}
	})
	return all
}

func patterns(v document.Value) (all []string) {
	v.ListOrNone(func(i int, v document.Value) {
		if i == maxList {
			v.Refuse("there are more than %d", maxList)
		}
		text, ok := v.Text()
		if !ok || i >= maxList {
			return
		}
		if _, err := path.Match(text, ""); err != nil {
			v.Refuse("must be a path, in which * stands for any text without a slash, or a folder that ends with one")
			return
		}
		all = append(all, text)
	})
	return all
}

// ignores reports whether a path is left out: by a pattern, or within a folder that ends with a slash.
func (s *Settings) ignores(file string) bool {
	return slices.ContainsFunc(s.Ignore, func(pattern string) bool {
		if strings.HasSuffix(pattern, "/") {
			return strings.HasPrefix(file, pattern)
		}
		matches, _ := path.Match(pattern, file) // it was read, so it is one
		return matches
	})
}

// limit is a rule's limit for an autoscaler, "namespace/name".
func (s *Settings) limit(key, object string) Limit {
	for i := range s.targets {
		if matches, _ := path.Match(s.targets[i].match, object); !matches {
			continue
		}
		if l, there := s.targets[i].limits[key]; there {
			return l
		}
		break
	}
	return s.limits[key]
}

// ruleOf is the rule with that ID.
func ruleOf(id string) *Rule {
	return &Rules[slices.IndexFunc(Rules, func(r Rule) bool { return r.ID == id })]
}

// asLint are the rules as SARIF has them.
func asLint() (all []lint.Rule) {
	for i := range Rules {
		r := &Rules[i]
		level := lint.Error
		if r.Level != Error {
			level = lint.Warning
		}
		all = append(all, lint.Rule{ID: r.ID, Severity: level, Title: r.title(r.Default), Why: r.Why, Mend: r.Mend})
	}
	return append(all, lint.Rule{
		ID: refused, Severity: lint.Error, Title: "valid spec", Why: "The API server, or the service, refuses the spec.", Mend: "Correct what the message says.",
	})
}

// refused is the ID of results about specs that nothing can run.
const refused = "invalid"

func (r *Rule) title(limit float64) string {
	if r.limitless() {
		return r.Title
	}
	return fmt.Sprintf(r.Title, strconv.FormatFloat(limit, 'f', -1, 64)) // as it was written
}

// number prints a figure with what matters of it.
func number(f float64) string { return printable.Figures(f, 4) }
