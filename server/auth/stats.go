package auth

import (
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/files"
)

// Stats are what an Authenticator has counted, for metrics.
type Stats struct {
	// Refused is how often callers were not authenticated, by reason. All reasons are
	// there.
	Refused map[Reason]uint64
	// Tokens and OIDC are of the files; the zero value without a file.
	Tokens, OIDC files.Stats
	// KnownTokens is how many tokens the file of tokens has, expired ones included.
	KnownTokens int
	// CacheHits and CacheMisses count JWTs that were remembered and that were not;
	// Cached is how many are now.
	CacheHits, CacheMisses uint64
	Cached                 int
	// Issuers are in order of their URLs.
	Issuers []IssuerStats
}

// IssuerStats are of one issuer.
type IssuerStats struct {
	Issuer string
	// Fetches and Failures count how often the keys were asked for, and in vain.
	Fetches, Failures uint64
	// Keys is how many there are.
	Keys int
	// Fetched is when the keys were last had; zero: never.
	Fetched time.Time
	// Err is why the last fetch failed; nil: it did not, or none has ended yet.
	Err error
}

// Stats returns the counters. What is counted of an issuer begins anew when
// its entry in the file changes.
func (a *Authenticator) Stats() Stats {
	s := Stats{Refused: make(map[Reason]uint64, len(reasons)), CacheHits: a.hits.Load(), CacheMisses: a.misses.Load()}
	for i, reason := range reasons {
		s.Refused[reason] = a.refused[i].Load()
	}
	if a.tokens != nil {
		s.Tokens, s.KnownTokens = a.tokens.Stats(), len(a.tokens.Load())
	}
	if a.oidc == nil {
		return s
	}
	s.OIDC = a.oidc.Stats()
	set := a.issuers.Load()
	s.Cached = set.cache.Len()
	for _, i := range set.byURL {
		s.Issuers = append(s.Issuers, i.stats())
	}
	slices.SortFunc(s.Issuers, func(a, b IssuerStats) int { return strings.Compare(a.Issuer, b.Issuer) })
	return s
}

func (i *runningIssuer) stats() IssuerStats {
	s := IssuerStats{Issuer: i.config.Issuer, Fetches: i.keys.fetches.Load(), Failures: i.keys.failures.Load()}
	if state := i.keys.state.Load(); state != nil {
		s.Keys, s.Fetched, s.Err = len(state.keys), state.fetched, state.err
	}
	return s
}

func (a *Authenticator) countRefused(reason Reason) {
	if i := slices.Index(reasons[:], reason); i >= 0 {
		a.refused[i].Add(1)
	}
}
