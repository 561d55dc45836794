package auth

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Method is the kind of credentials that proved an identity.
type Method string

// The methods. Each begins the names of its identities, except MethodNone.
const (
	MethodNone        Method = "none"
	MethodCertificate Method = "certificate"
	MethodToken       Method = "token"
	MethodOIDC        Method = "oidc"
)

// AnonymousName is the name of callers without credentials.
const AnonymousName = "anonymous"

// maxName limits names of identities and groups, in bytes.
const maxName = 1024

// Identity is an authenticated caller. Identities are shared and must not be changed. The zero
// value has no rights.
type Identity struct {
	// Name is unique, begins with the method and has no control characters.
	Name string
	// Method is how it was authenticated.
	Method Method
	// Groups are the caller's groups, as reported by the issuer.
	Groups Groups
	// Expires is when the credentials expire; zero: never. They may be revoked earlier,
	// so long streams should authenticate again now and then.
	Expires time.Time
}

// Anonymous is the identity of callers without credentials.
var Anonymous = &Identity{Name: AnonymousName, Method: MethodNone}

// Groups is a set of names of groups, in one comparable value. The zero value is the
// empty set.
type Groups struct{ lines string }

// NewGroups returns the set of names. No name may contain a line break.
func NewGroups(names ...string) Groups {
	names = slices.Clone(names)
	slices.Sort(names)
	return Groups{lines: strings.Join(slices.Compact(names), "\n")}
}

// Names returns the names in order.
func (g Groups) Names() []string {
	if g.lines == "" {
		return nil
	}
	return strings.Split(g.lines, "\n")
}

// usualGroups is how much memory a set takes that weighs 1, in bytes.
const usualGroups = 4 << 10

// Weight is how many callers one of these groups counts as in a cache: 1, or more if they are many.
func (g Groups) Weight() int { return 1 + len(g.lines)/usualGroups }

// validName reports whether a name in credentials is acceptable: text that fits a log
// line, a header and a policy file.
func validName(name string) bool {
	return name != "" && len(name) <= maxName && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}
