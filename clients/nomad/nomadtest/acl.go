package nomadtest

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/api"
)

// Management is the secret of the management token.
const Management = "token:management"

// acl has tokens and policies. The zero value disables them: every caller may do everything.
type acl struct {
	on       bool
	tokens   map[string]*api.ACLToken // by secret
	policies map[string]rules
}

// rules are a policy's permissions: capabilities by namespace, and reading nodes.
type rules struct {
	namespaces map[string][]string
	nodes      bool
}

// shorthands expand a namespace's policy to the capabilities that the server checks.
var shorthands = map[string][]string{
	"read":  {"list-jobs", "read-job", "read-job-scaling", "list-scaling-policies", "read-scaling-policy"},
	"write": {"list-jobs", "read-job", "read-job-scaling", "list-scaling-policies", "read-scaling-policy", "scale-job", "submit-job"},
	"scale": {"read-job", "read-job-scaling", "list-scaling-policies", "read-scaling-policy", "scale-job"},
	"deny":  {},
}

var (
	blockPattern = regexp.MustCompile(`(namespace "([^"]+)"|node)\s*\{([^}]*)\}`)
	capabilities = regexp.MustCompile(`capabilities\s*=\s*\[([^\]]*)\]`)
	shorthand    = regexp.MustCompile(`policy\s*=\s*"(\w+)"`)
)

// parseRules reads a policy in HCL.
func parseRules(text string) rules {
	out := rules{namespaces: map[string][]string{}}
	for _, block := range blockPattern.FindAllStringSubmatch(text, -1) {
		named := shorthand.FindStringSubmatch(block[3])
		if block[1] == "node" {
			out.nodes = named != nil && (named[1] == "read" || named[1] == "write")
			continue
		}
		may := out.namespaces[block[2]]
		if named != nil {
			may = append(may, shorthands[named[1]]...)
		}
		if list := capabilities.FindStringSubmatch(block[3]); list != nil {
			for _, one := range strings.Split(list[1], ",") {
				may = append(may, strings.Trim(strings.TrimSpace(one), `"`))
			}
		}
		out.namespaces[block[2]] = may
	}
	return out
}

// caller is the sender of a request.
type caller struct {
	all bool // may do everything
	// bad reports whether the token is unknown or revoked.
	bad   bool
	rules []rules
}

// caller returns the sender of a request. The caller holds the lock.
func (s *Server) caller(r *http.Request) caller {
	if !s.acl.on {
		return caller{all: true}
	}
	secret := r.Header.Get("X-Nomad-Token")
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && secret == "" {
		secret = bearer
	}
	if secret == "" {
		return caller{}
	}
	token := s.acl.tokens[secret]
	switch {
	case secret == Management:
		return caller{all: true}
	case token == nil:
		return caller{bad: true}
	}
	var c caller
	for _, name := range token.Policies {
		if policy, ok := s.acl.policies[name]; ok {
			c.rules = append(c.rules, policy)
		}
	}
	return c
}

// may reports whether the caller has one of the capabilities on a namespace. The rule for "*"
// applies to namespaces without a rule of their own.
func (c caller) may(namespace string, wanted ...string) bool {
	if c.all {
		return true
	}
	for _, r := range c.rules {
		has, ok := r.namespaces[namespace]
		if !ok {
			has = r.namespaces["*"]
		}
		for _, one := range wanted {
			if slices.Contains(has, one) {
				return true
			}
		}
	}
	return false
}

func (c caller) anywhere(wanted ...string) bool {
	if c.all {
		return true
	}
	for _, r := range c.rules {
		for _, has := range r.namespaces {
			for _, one := range wanted {
				if slices.Contains(has, one) {
					return true
				}
			}
		}
	}
	return false
}

func (c caller) nodes() bool {
	return c.all || slices.ContainsFunc(c.rules, func(r rules) bool { return r.nodes })
}

func denied() answer { return refuse(http.StatusForbidden, "Permission denied") }

// UseACL enables tokens. Before that every caller may do everything.
func (s *Server) UseACL() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acl.on = true
}

// SetToken creates a token with a policy of its own, or changes the policy.
func (s *Server) SetToken(secret, policy string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acl.init()
	s.acl.policies[secret] = parseRules(policy)
	s.acl.tokens[secret] = &api.ACLToken{SecretID: secret, Policies: []string{secret}}
}

// Revoke revokes a token.
func (s *Server) Revoke(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.acl.tokens, secret)
}

func (a *acl) init() {
	if a.tokens == nil {
		a.tokens, a.policies = map[string]*api.ACLToken{}, map[string]rules{}
	}
}
