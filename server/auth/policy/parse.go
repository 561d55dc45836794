package policy

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/spelling"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/conversion"
)

// Limits of the values in a file.
const (
	maxDuration = 24 * time.Hour
	maxRate     = 1e9
	maxCount    = 1e9
	maxBytes    = 1e15
)

// Parse parses a policy. name is the file's, for problems; the error joins all of them,
// one per line.
func Parse(name string, data []byte) (*Policy, error) { return ParseWithin(name, data, 0) }

// ParseWithin is Parse for a server that keeps histories for a limited time: no window
// may be longer. 0: for ever.
func ParseWithin(name string, data []byte, kept time.Duration) (*Policy, error) {
	p := newPolicy()
	err := document.Read(name, data, func(root document.Value) {
		root.Map(
			document.Required("grants", func(list document.Value) {
				list.ListOrNone(func(_ int, v document.Value) {
					g := readGrant(v)
					p.grants = append(p.grants, g)
					if g.verbs != Everything {
						return
					}
					const everything = " may do everything, also delete, override, operate and simulate: name identities or groups that are fewer, or list the verbs"
					switch {
					case g.who.identities.matchCallers(auth.AnonymousName, true):
						p.Warnings = append(p.Warnings, v.Place()+"whoever calls without credentials"+everything)
					case g.who.identities.any, g.who.groups.any:
						p.Warnings = append(p.Warnings, v.Place()+"every caller with credentials"+everything)
					}
				})
			}),
			document.Optional("options", func(list document.Value) {
				list.ListOrNone(func(_ int, v document.Value) { p.options = append(p.options, readOptionsRule(v, kept)) })
			}),
			document.Optional("limits", func(list document.Value) {
				list.ListOrNone(func(_ int, v document.Value) { p.limits = append(p.limits, readLimitsRule(v)) })
			}),
		)
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// fields are the entries that select the callers of a rule.
func (w *who) fields() []document.Field {
	w.everybody = true
	read := func(into *names, check func(string) string) func(document.Value) {
		return func(v document.Value) {
			w.everybody = false
			*into = readPatterns(v, check)
		}
	}
	return []document.Field{
		document.Optional("identities", read(&w.identities, checkIdentity)),
		document.Optional("groups", read(&w.groups, checkGroup)),
		description(),
	}
}

// description is for people.
func description() document.Field {
	return document.Optional("description", func(v document.Value) { v.TextOrEmpty() })
}

func readGrant(v document.Value) grant {
	g := grant{namespaces: allNames}
	right := v.Map(append(g.who.fields(),
		document.Required("clusters", func(v document.Value) { g.clusters = readPatterns(v, checkSegment) }),
		document.Optional("namespaces", func(v document.Value) { g.namespaces = readPatterns(v, checkSegment) }),
		document.Required("verbs", func(v document.Value) { g.verbs = readVerbs(v) }),
	)...)
	if right && g.who.everybody {
		v.Refuse(`identities or groups must say who is granted this; everybody with credentials is identities: ["*"]`)
	}
	return g
}

func readVerbs(v document.Value) Verb {
	var verbs Verb
	v.List(func(_ int, v document.Value) {
		name, _ := v.OneOf(append(verbOrder[:], "*"))
		verbs |= verbNames[name]
	})
	return verbs
}

func readOptionsRule(v document.Value, kept time.Duration) optionsRule {
	r := optionsRule{clusters: allNames, namespaces: allNames, targets: allNames}
	segments := func(into *names) func(document.Value) {
		return func(v document.Value) { *into = readPatterns(v, checkSegment) }
	}
	sets := false
	right := v.Map(append(r.who.fields(),
		document.Optional("clusters", segments(&r.clusters)),
		document.Optional("namespaces", segments(&r.namespaces)),
		document.Optional("targets", segments(&r.targets)),
		document.Optional("defaults", func(v document.Value) { sets = true; readDefaults(v, &r.options, kept) }),
		document.Optional("caps", func(v document.Value) { sets = true; readCaps(v, &r.options) }),
		document.Optional("dryRunOnly", func(v document.Value) { sets = true; keep(&r.options.DryRunOnly)(v.Bool()) }),
		document.Optional("allowEvaluationTime", func(v document.Value) { sets = true; keep(&r.options.AllowEvaluationTime)(v.Bool()) }),
	)...)
	if right && !sets {
		v.Refuse("sets nothing: it needs defaults, caps, dryRunOnly or allowEvaluationTime")
	}
	return r
}

func readDefaults(v document.Value, o *Options, kept time.Duration) {
	duration := func(into **time.Duration) func(document.Value) {
		return func(v document.Value) { keep(into)(v.Duration(maxDuration)) }
	}
	remembered := func(into **time.Duration) func(document.Value) {
		return func(v document.Value) {
			window, ok := v.Duration(maxDuration)
			if ok && kept > 0 && window > kept {
				v.Refuse("%s is longer than histories are kept (--history-ttl, %s): a history would be deleted while it still affects decisions", window, kept)
			}
			keep(into)(window, ok)
		}
	}
	v.Map(
		document.Optional("profile", func(v document.Value) { o.Profile = readProfile(v) }),
		document.Optional("tolerance", func(v document.Value) { keep(&o.Tolerance)(readTolerance(v)) }),
		document.Optional("cpuInitializationPeriod", duration(&o.CPUInitializationPeriod)),
		document.Optional("initialReadinessDelay", duration(&o.InitialReadinessDelay)),
		document.Optional("downscaleStabilization", remembered(&o.DownscaleStabilization)),
		document.Optional("upscaleDelay", remembered(&o.UpscaleDelay)),
		document.Optional("downscaleDelay", remembered(&o.DownscaleDelay)),
		document.Optional("scaleToZero", func(v document.Value) { keep(&o.ScaleToZero)(v.Bool()) }),
	)
}

func readProfile(v document.Value) *recommender.Profile {
	name, ok := v.OneOf(recommender.ProfileNames())
	if !ok {
		return nil
	}
	profile, _ := recommender.ProfileByName(name)
	return profile
}

func readTolerance(v document.Value) (float64, bool) {
	text, ok := v.Raw()
	if !ok {
		return 0, false
	}
	tolerance, err := conversion.Tolerance(text)
	if err != nil {
		v.Refuse("%v", err)
	}
	return tolerance, err == nil
}

func readCaps(v document.Value, o *Options) {
	count := func(into **int32, minimum int64) func(document.Value) {
		return func(v document.Value) {
			n, ok := v.Int(minimum, math.MaxInt32)
			keep(into)(int32(n), ok)
		}
	}
	v.Map(
		document.Optional("maxReplicas", count(&o.MaxReplicas, 1)),
		document.Optional("minReplicas", count(&o.MinReplicas, 0)),
	)
	if o.MinReplicas != nil && o.MaxReplicas != nil && *o.MinReplicas > *o.MaxReplicas {
		v.Refuse("minReplicas must not be above maxReplicas")
	}
}

// keep stores a parsed value.
func keep[T any](into **T) func(T, bool) {
	return func(value T, ok bool) {
		if ok {
			*into = &value
		}
	}
}

// unlimited is a value of limits besides numbers.
const unlimited = "unlimited"

func readLimitsRule(v document.Value) limitsRule {
	var r limitsRule
	sets := false
	count := func(into *int, maximum int64) func(document.Value) {
		return func(v document.Value) {
			sets = true
			if *into = Unlimited; !v.Is(unlimited) {
				n, _ := v.Int(1, maximum)
				*into = int(n)
			}
		}
	}
	right := v.Map(append(r.who.fields(),
		document.Optional("requestsPerSecond", func(v document.Value) {
			sets = true
			if r.limits.RequestsPerSecond = math.Inf(1); !v.Is(unlimited) {
				r.limits.RequestsPerSecond, _ = v.Positive(maxRate)
			}
		}),
		document.Optional("burst", count(&r.limits.Burst, maxCount)),
		document.Optional("inFlight", count(&r.limits.InFlight, maxCount)),
		document.Optional("streams", count(&r.limits.Streams, maxCount)),
		document.Optional("clusterTargets", count(&r.limits.ClusterTargets, maxCount)),
		document.Optional("clusterBytes", count(&r.limits.ClusterBytes, maxBytes)),
	)...)
	if right && !sets {
		v.Refuse("sets nothing: it needs requestsPerSecond, burst, inFlight, streams, clusterTargets or clusterBytes")
	}
	return r
}

// readPatterns reads a list of patterns; check returns what is wrong with one, or "".
func readPatterns(v document.Value, check func(string) string) names {
	var texts []string
	v.List(func(_ int, v document.Value) {
		text, ok := v.Text()
		if !ok {
			return
		}
		if problem := check(text); problem != "" {
			v.Refuse("%s", problem)
		}
		texts = append(texts, text)
	})
	return newNames(texts)
}

func checkSegment(text string) string {
	switch {
	case text == "-":
		return `all are "*" here`
	case !target.IsSegment(strings.ReplaceAll(text, "*", "x")):
		return `must be 1 to 253 characters of [A-Za-z0-9._-], or * for any characters, and not "." or ".."`
	}
	return ""
}

// kinds are the prefixes of the names of identities.
var kinds = []string{"certificate:uri:", "certificate:dns:", "certificate:cn:", string(auth.MethodToken) + ":", string(auth.MethodOIDC) + ":"}

// checkIdentity refuses names that no identity can have, for example ci instead of
// token:ci.
func checkIdentity(text string) string {
	if text == auth.AnonymousName || begins(text, kinds) {
		return ""
	}
	problem := "no identity has such a name: names begin with " + strings.Join(kinds, ", ") + " or are " + auth.AnonymousName
	kind, _, _ := strings.Cut(text, ":")
	if guess, ok := spelling.Closest(kind, []string{"token", "certificate", "oidc", auth.AnonymousName}); ok && guess != kind {
		return problem + "; did you mean " + guess + "?"
	}
	return problem
}

func checkGroup(text string) string {
	if begins(text, kinds[len(kinds)-1:]) {
		return ""
	}
	return "no group has such a name: names begin with " + kinds[len(kinds)-1]
}

// begins reports whether a name that matches a pattern can begin with one of kinds.
func begins(text string, kinds []string) bool {
	head, _, wild := strings.Cut(text, "*")
	return slices.ContainsFunc(kinds, func(kind string) bool {
		return len(head) > len(kind) && strings.HasPrefix(head, kind) || wild && (strings.HasPrefix(kind, head) || strings.HasPrefix(head, kind))
	})
}
