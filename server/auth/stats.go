package auth

import (
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/files"
)

// Stats are counters of an Authenticator, for metrics.
type Stats struct {
	// Refused counts the callers that were not authenticated, by reason, with an entry
	// for every reason.
	Refused map[Reason]uint64
	// Tokens and OIDC are the counters of the files; zero without a file.
	Tokens, OIDC files.Stats
	// KnownTokens is how many tokens the file of tokens has, including expired ones.
	KnownTokens int
	// TokensExpire is when the last token of an identity expires, of those whose tokens all do.
	TokensExpire map[string]time.Time
	// CacheHits and CacheMisses count JWTs that were in the cache and that were not;
	// Cached is its present size.
	CacheHits, CacheMisses uint64
	Cached                 int
	// Issuers are in the order of their URLs.
	Issuers []IssuerStats
}

// IssuerStats are the counters of one issuer.
type IssuerStats struct {
	Issuer string
	// Fetches and Failures count all fetches of the keys and the failed ones.
	Fetches, Failures uint64
	// Keys is the number of keys.
	Keys int
	// Fetched is when the keys were last fetched; zero: never.
	Fetched time.Time
	// Err is the error of the last fetch; nil: it succeeded, or none has finished yet.
	Err error
}

// Stats returns the counters. An issuer's counters restart when its entry in the file has
// another caFile, or another insecure.
func (a *Authenticator) Stats() Stats {
	s := Stats{Refused: make(map[Reason]uint64, len(reasons)), CacheHits: a.hits.Load(), CacheMisses: a.misses.Load()}
	for i, reason := range reasons {
		s.Refused[reason] = a.refused[i].Load()
	}
	if a.tokens != nil {
		known := a.tokens.Load()
		s.Tokens, s.KnownTokens, s.TokensExpire = a.tokens.Stats(), len(known), known.expire()
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
