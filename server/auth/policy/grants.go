package policy

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
)

// Grants are the parts of a policy that apply to one caller. They are immutable and
// safe for concurrent use. A reload creates new ones, so long streams should look them
// up again now and then.
type Grants struct {
	identity string
	grants   []*grant
	options  []*optionsRule
	limits   Limits
	weight   int // in the cache of the policy
}

// Allow reports whether the caller may use a verb in a namespace of a cluster; for a
// set of verbs, whether one grant allows all of them. Neither name may be "-": see
// Within.
func (g *Grants) Allow(verb Verb, cluster, namespace string) bool {
	for _, granted := range g.grants {
		if granted.allows(verb) && granted.clusters.match(cluster) && granted.namespaces.match(namespace) {
			return true
		}
	}
	return false
}

func (r *grant) allows(verb Verb) bool { return verb != 0 && r.verbs&verb == verb }

// Check is Allow with a *DeniedError.
func (g *Grants) Check(verb Verb, cluster, namespace string) error {
	if g.Allow(verb, cluster, namespace) {
		return nil
	}
	return &DeniedError{Identity: g.identity, Verb: verb, Cluster: cluster, Namespace: namespace}
}

// CheckAnywhere returns a *DeniedError unless some grant has the verb: for calls that
// concern no cluster, such as simulations.
func (g *Grants) CheckAnywhere(verb Verb) error {
	if g.Within(verb, "", "").None() {
		return &DeniedError{Identity: g.identity, Verb: verb}
	}
	return nil
}

// Permission is what one grant allows.
type Permission struct {
	// Verbs that are allowed together.
	Verbs Verb
	// Clusters and Namespaces are names and patterns, in order.
	Clusters, Namespaces []string
}

// Permissions returns the first most grants for the caller, with as many names of each at
// most. more reports whether there are more.
func (g *Grants) Permissions(most int) (all []Permission, more bool) {
	for i, granted := range g.grants {
		if i == most {
			return all, true
		}
		clusters, moreClusters := granted.clusters.texts(most)
		namespaces, moreNamespaces := granted.namespaces.texts(most)
		all = append(all, Permission{granted.verbs, clusters, namespaces})
		more = more || moreClusters || moreNamespaces
	}
	return all, more
}

// texts returns the names and patterns as they are written, in order.
func (n *names) texts(most int) (texts []string, more bool) {
	if n.any {
		return []string{"*"}, false
	}
	texts = append(slices.Clone(n.few), slices.Collect(maps.Keys(n.many))...)
	for i := range n.patterns {
		texts = append(texts, n.patterns[i].text)
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	return texts[:min(len(texts), most)], len(texts) > most
}

// HasOptions reports whether the policy sets options for some of the caller's targets.
func (g *Grants) HasOptions() bool { return len(g.options) > 0 }

// Limits are the caller's own.
func (g *Grants) Limits() Limits { return g.limits }

// Options are the policy's options for the caller's requests about a target.
func (g *Grants) Options(cluster, namespace, target string) Options {
	var o Options
	for _, rule := range g.options {
		if rule.clusters.match(cluster) && rule.namespaces.match(namespace) && rule.targets.match(target) {
			o = o.or(&rule.options)
		}
	}
	return o.bounded()
}

// MayRunDry reports whether the policy allows dry runs only about some target in a cluster, or in a namespace of it.
func (g *Grants) MayRunDry(cluster, namespace string) bool {
	for _, rule := range g.options {
		if dry := rule.options.DryRunOnly; dry != nil && *dry && rule.clusters.match(cluster) && rule.namespaces.mayMatch(namespace) {
			return true
		}
	}
	return false
}

// isAll reports whether a name of a cluster or namespace stands for all.
func isAll(name string) bool { return name == "" || name == "-" }

// Scope is where a caller may use a verb, within a cluster, a namespace, or all of
// either. The zero value is nowhere.
type Scope struct {
	verb   Verb
	grants *Grants
	all    bool
}

// Within returns where the caller may use a verb, for calls about many targets: cluster
// and namespace are names, or "-" or "" for all.
//
//	scope := grants.Within(policy.Read, cluster, namespace)
//	if scope.None() { // PERMISSION_DENIED
//	list what is in cluster and namespace, and if !scope.All() what scope.Contains
func (g *Grants) Within(verb Verb, cluster, namespace string) Scope {
	var s Scope
	for _, granted := range g.grants {
		if !granted.allows(verb) || !granted.clusters.mayMatch(cluster) || !granted.namespaces.mayMatch(namespace) {
			continue
		}
		s.verb, s.grants = verb, g
		s.all = s.all || granted.clusters.covers(cluster) && granted.namespaces.covers(namespace)
	}
	return s
}

// None reports whether the scope is certainly empty.
func (s Scope) None() bool { return s.grants == nil }

// All reports whether the scope is everything requested. It may be false where several
// grants together cover everything.
func (s Scope) All() bool { return s.all }

// Contains reports whether a requested namespace is in the scope.
func (s Scope) Contains(cluster, namespace string) bool {
	return s.all || s.grants != nil && s.grants.Allow(s.verb, cluster, namespace)
}

// After returns a lower bound of the first namespace in the scope that follows one that is
// not: names of a cluster and of a namespace, "" for the cluster's first. false: there is
// none.
func (s Scope) After(cluster, namespace string) (nextCluster, nextNamespace string, more bool) {
	if s.grants == nil {
		return "", "", false
	}
	for _, granted := range s.grants.grants {
		if !granted.allows(s.verb) {
			continue
		}
		c, n, ok := granted.after(cluster, namespace)
		if ok && (!more || c < nextCluster || c == nextCluster && n < nextNamespace) {
			nextCluster, nextNamespace, more = c, n, true
		}
	}
	return nextCluster, nextNamespace, more
}

func (r *grant) after(cluster, namespace string) (nextCluster, nextNamespace string, more bool) {
	if r.clusters.match(cluster) {
		if next, ok := r.namespaces.after(namespace); ok {
			return cluster, next, true
		}
	}
	next, ok := r.clusters.after(cluster)
	return next, "", ok
}

// after returns a lower bound of the names that match and follow the given one. The
// least possible is the name and a byte that no name contains.
func (n *names) after(name string) (next string, more bool) {
	if n.any || len(n.patterns) > 0 {
		return name + "\x01", true
	}
	consider := func(text string) {
		if text > name && (!more || text < next) {
			next, more = text, true
		}
	}
	for _, text := range n.few {
		consider(text)
	}
	for text := range n.many {
		consider(text)
	}
	return next, more
}

// Fingerprint identifies the contents of the scope: it stays the same as long as the
// policy's grants for the caller do, whatever else changes in the policy.
func (s Scope) Fingerprint() string {
	sum := sha256.New()
	if s.grants != nil {
		for _, granted := range s.grants.grants {
			if granted.allows(s.verb) {
				sum.Write(granted.clusters.digest())
				sum.Write(granted.namespaces.digest())
			}
		}
	}
	return string(sum.Sum(nil))
}

// digest is a digest of the names, in any order.
func (n *names) digest() []byte {
	texts := append(slices.Clone(n.few), slices.Collect(maps.Keys(n.many))...)
	for i := range n.patterns {
		texts = append(texts, n.patterns[i].text)
	}
	slices.Sort(texts)
	sum := sha256.Sum256(fmt.Appendf(nil, "%t %q", n.any, slices.Compact(texts)))
	return sum[:]
}

// mayMatch reports whether some requested name may match.
func (n *names) mayMatch(asked string) bool {
	if isAll(asked) {
		return n.any || len(n.few)+len(n.many)+len(n.patterns) > 0
	}
	return n.match(asked)
}

// covers reports whether all requested names match.
func (n *names) covers(asked string) bool {
	if isAll(asked) {
		return n.any
	}
	return n.match(asked)
}
