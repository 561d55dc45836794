package policy

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/bounded"
)

// rememberedCallers limits the cached grants of callers; one of many groups counts as several.
const rememberedCallers = 4096

// Policy is the content of a file. It is immutable and safe for concurrent use.
type Policy struct {
	// Warnings name the grants that hardly anybody wants, each with its place in the file.
	Warnings []string

	grants  []grant
	options []optionsRule
	limits  []limitsRule

	callers *bounded.Map[caller, *Grants]
}

// caller is what rules know of an identity.
type caller struct {
	name   string
	groups auth.Groups
	// no wildcard matches an anonymous caller.
	anonymous bool
}

// who selects the callers of a rule.
type who struct {
	// everybody: the rule applies to all callers.
	everybody          bool
	identities, groups names
}

func (w *who) match(c caller, groups []string) bool {
	if w.everybody || w.identities.matchCallers(c.name, c.anonymous) {
		return true
	}
	return slices.ContainsFunc(groups, w.groups.match)
}

type grant struct {
	who                  who
	verbs                Verb
	clusters, namespaces names
}

// optionsRule sets options for targets.
type optionsRule struct {
	who                           who
	clusters, namespaces, targets names
	options                       Options
}

type limitsRule struct {
	who    who
	limits Limits
}

// Open reads a policy from a file; Run reloads it on changes. The error joins all
// problems of the file.
func Open(path string, o files.Options) (*files.Watched[*Policy], error) {
	return OpenWithin(path, 0, o)
}

// OpenWithin is Open for a server that keeps histories for a limited time; see
// ParseWithin.
func OpenWithin(path string, kept time.Duration, o files.Options) (*files.Watched[*Policy], error) {
	return files.Open(func(contents [][]byte) (*Policy, error) { return ParseWithin(path, contents[0], kept) }, o, path)
}

// Default is the policy without a file: every authenticated caller may do everything,
// and callers without credentials, too, if anonymous is set. Set it only while
// authentication is off.
func Default(anonymous bool) *Policy {
	p := newPolicy()
	identities := []string{"*"}
	if anonymous {
		identities = append(identities, auth.AnonymousName)
	}
	p.grants = []grant{{who: who{identities: newNames(identities)}, verbs: Everything, clusters: allNames, namespaces: allNames}}
	return p
}

func newPolicy() *Policy {
	return &Policy{callers: bounded.NewWeighted[caller](rememberedCallers, func(g *Grants) int { return g.weight })}
}

// Allows reports whether a caller may use a verb in a namespace of a cluster.
func (p *Policy) Allows(identity *auth.Identity, verb Verb, cluster, namespace string) bool {
	return p.For(identity).Allow(verb, cluster, namespace)
}

// Unknown returns the callers and groups in the policy that nobody can be, given Authenticator.Names. A pattern for holders of
// tokens may be for those to come.
func (p *Policy) Unknown(known, prefixes []string) (unknown []string) {
	tokens := []string{string(auth.MethodToken) + ":"}
	exist := make(map[string]bool, len(known))
	for _, name := range known {
		exist[name] = true
	}
	var all []*who
	for i := range p.grants {
		all = append(all, &p.grants[i].who)
	}
	for i := range p.options {
		all = append(all, &p.options[i].who)
	}
	for i := range p.limits {
		all = append(all, &p.limits[i].who)
	}
	for _, who := range all {
		for _, names := range []*names{&who.identities, &who.groups} {
			texts, _ := names.texts(math.MaxInt)
			for _, text := range texts {
				if toCome := strings.Contains(text, "*") && begins(text, tokens); !toCome && !exist[text] && !begins(text, prefixes) {
					unknown = append(unknown, text)
				}
			}
		}
	}
	slices.Sort(unknown)
	return slices.Compact(unknown)
}

// For returns the policy's grants for a caller; none for nil.
func (p *Policy) For(identity *auth.Identity) *Grants {
	if identity == nil || identity.Name == "" {
		return &Grants{}
	}
	c := caller{name: identity.Name, groups: identity.Groups, anonymous: identity.Method == auth.MethodNone}
	if known, ok := p.callers.Get(c); ok {
		return known
	}
	g := p.grantsOf(c)
	p.callers.Put(c, g)
	return g
}

// grantsOf selects the rules that apply to a caller.
func (p *Policy) grantsOf(c caller) *Grants {
	g := &Grants{identity: c.name, weight: c.groups.Weight()}
	groups := c.groups.Names()
	for i := range p.grants {
		if p.grants[i].who.match(c, groups) {
			g.grants = append(g.grants, &p.grants[i])
		}
	}
	for i := range p.options {
		if p.options[i].who.match(c, groups) {
			g.options = append(g.options, &p.options[i])
		}
	}
	for i := range p.limits {
		if p.limits[i].who.match(c, groups) {
			g.limits = g.limits.or(p.limits[i].limits)
		}
	}
	return g
}
