package target

import "strings"

// Place is a cluster, a namespace or a target: its name, of which the later parts may be empty.
type Place Name

// String returns the place in the API's format: clusters/{cluster}, clusters/{cluster}/namespaces/{namespace}, or a
// target's name.
func (p Place) String() string {
	switch {
	case p.Namespace == "":
		return "clusters/" + p.Cluster
	case p.Target == "":
		return "clusters/" + p.Cluster + "/namespaces/" + p.Namespace
	}
	return Name(p).String()
}

// Override returns the name of an override of the place.
func (p Place) Override(id string) string { return p.String() + overridesOf + id }

// Has reports whether the other place is the place itself, or within it.
func (p Place) Has(other Place) bool {
	return p.Cluster == other.Cluster && (p.Namespace == "" || p.Namespace == other.Namespace && (p.Target == "" || p.Target == other.Target))
}

// ParsePlace parses the name of a place. It does not allocate.
func ParsePlace(s string) (p Place, ok bool) {
	if n, is := Parse(s); is {
		return Place(n), true
	}
	rest, ok := strings.CutPrefix(s, "clusters/")
	if !ok {
		return Place{}, false
	}
	cluster, namespace, within := strings.Cut(rest, "/namespaces/")
	if !IsSegment(cluster) || within && !IsSegment(namespace) {
		return Place{}, false
	}
	return Place{Cluster: cluster, Namespace: namespace}, true
}

// Namespaces is a parent of targets, for what a person types: of a cluster alone all its namespaces, and
// CLUSTER/NAMESPACE for short.
func Namespaces(parent string) string {
	if p, ok := ParsePlace(parent); ok && p.Namespace == "" || parent == "clusters/-" {
		return parent + "/namespaces/-"
	}
	if cluster, namespace, two := strings.Cut(parent, "/"); two && cluster != "clusters" && cluster != "" && namespace != "" && !strings.Contains(namespace, "/") {
		return "clusters/" + cluster + "/namespaces/" + namespace
	}
	return parent
}

// MaxOverrideID limits the last part of an override's name, in bytes.
const MaxOverrideID = 63

const overridesOf = "/overrides/"

// ParseOverride parses the name of an override, {place}/overrides/{override}. It does not allocate.
func ParseOverride(s string) (p Place, id string, ok bool) {
	place, id, ok := CutOverride(s)
	if !ok || !IsOverrideID(id) {
		return Place{}, "", false
	}
	p, ok = ParsePlace(place)
	return p, id, ok
}

// CutOverride cuts /overrides/{override} from the end of a name. No name of a place ends like that.
func CutOverride(s string) (place, id string, ok bool) {
	last := strings.LastIndexByte(s, '/')
	if last < 0 || !strings.HasSuffix(s[:last+1], overridesOf) {
		return s, "", false
	}
	return s[:last+1-len(overridesOf)], s[last+1:], true
}

// IsOverrideID reports whether a text may be the last part of an override's name: 1 to 63 characters of a–z, 0–9 and
// "-", which neither begins nor ends it.
func IsOverrideID(s string) bool {
	if s == "" || len(s) > MaxOverrideID || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
