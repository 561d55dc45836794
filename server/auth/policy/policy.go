package policy

import (
	"time"

	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/bounded"
)

// rememberedCallers bounds the callers whose grants are remembered.
const rememberedCallers = 4096

// Policy is what a file says. It is safe for concurrent use, and never changes.
type Policy struct {
	grants  []grant
	options []optionsRule
	limits  []limitsRule

	callers *bounded.Map[caller, *Grants]
}

// caller is what rules see of an identity.
type caller struct {
	name   string
	groups auth.Groups
	// anonymous callers are matched by no wildcards.
	anonymous bool
}

// who says which callers a rule is for.
type who struct {
	// everybody: the rule has no callers.
	everybody          bool
	identities, groups names
}

func (w *who) match(c caller, groups []string) bool {
	if w.everybody || w.identities.matchCallers(c.name, c.anonymous) {
		return true
	}
	for _, group := range groups {
		if w.groups.match(group) {
			return true
		}
	}
	return false
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

// Open reads a policy from a file, whose changes it takes while Run runs. An error is
// all that is wrong with the file.
func Open(path string, o files.Options) (*files.Watched[*Policy], error) {
	return OpenWithin(path, 0, o)
}

// OpenWithin is Open for a server that keeps histories for some time only; see
// ParseWithin.
func OpenWithin(path string, kept time.Duration, o files.Options) (*files.Watched[*Policy], error) {
	return files.Open(func(contents [][]byte) (*Policy, error) { return ParseWithin(path, contents[0], kept) }, o, path)
}

// Default is the policy where there is no file: every authenticated caller may do
// everything, and callers without credentials, too, if anonymous says so. It should do
// so only where authentication is off.
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
	return &Policy{callers: bounded.New[caller, *Grants](rememberedCallers)}
}

// Allows reports whether a caller may do something in a namespace of a cluster.
func (p *Policy) Allows(identity *auth.Identity, verb Verb, cluster, namespace string) bool {
	return p.For(identity).Allow(verb, cluster, namespace)
}

// For returns the policy's grants for a caller; for nil, none.
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

// grantsOf picks the rules that are for a caller.
func (p *Policy) grantsOf(c caller) *Grants {
	g := &Grants{identity: c.name}
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
