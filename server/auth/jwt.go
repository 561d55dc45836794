package auth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// issuer verifies the JWTs of an issuer. go-oidc's verifier has no typed errors and no
// configurable clock skew; go-jose, on which it is based, has both.
type issuer struct {
	config IssuerConfig
	keys   *keySet
}

// verified is the content of a verified JWT.
type verified struct {
	identity *Identity
	// until is when the token expires, including clock skew.
	until time.Time
	// The issuer's keys had this generation.
	issuer     *issuer
	generation uint64
}

// looksLikeJWT reports whether a token has the three parts of a signed JWT.
func looksLikeJWT(token string) bool {
	return strings.Count(token, ".") == 2
}

// claimedIssuer returns the issuer that a JWT claims, which only selects the keys to
// try; "": none. It matches the name "iss" exactly, as the verification does.
func claimedIssuer(token string) (string, error) {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	data, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return "", errors.New("payload is not base64url")
	}
	var claims map[string]json.RawMessage
	if json.Unmarshal(data, &claims) != nil {
		return "", errors.New("payload is not a JSON object")
	}
	var name string
	if raw, there := claims["iss"]; there && json.Unmarshal(raw, &name) != nil {
		return "", errors.New("iss is not a string")
	}
	return name, nil
}

// verify verifies a JWT that claims this issuer. It calls waits before it waits for the
// issuer.
func (i *issuer) verify(ctx context.Context, token string, now time.Time, waits func()) (verified, *Error) {
	parsed, err := jwt.ParseSigned(token, i.config.Algorithms)
	var wrongAlgorithm *jose.ErrUnexpectedSignatureAlgorithm
	switch {
	case errors.As(err, &wrongAlgorithm):
		return verified{}, refuse(ReasonWrongAlgorithm, "the bearer token is signed with an algorithm that is not accepted; accepted are "+joinAlgorithms(i.config.Algorithms), i.detail("algorithm"))
	case err != nil:
		return verified{}, refuse(ReasonMalformed, "the bearer token is not a valid JWT", i.detail("not a signed JWT"))
	}
	var claims map[string]json.RawMessage
	state, failure := i.verifySignature(ctx, parsed, &claims, waits)
	if failure != nil {
		return verified{}, failure
	}
	var registered jwt.Claims
	if parsed.UnsafeClaimsWithoutVerification(&registered) != nil { // Verified above.
		return verified{}, refuse(ReasonWrongClaims, "the bearer token has a registered claim of the wrong type", i.detail("types of claims"))
	}
	if failure := i.checkRegistered(&registered, now); failure != nil {
		return verified{}, failure
	}
	identity, failure := i.identity(claims)
	if failure != nil {
		return verified{}, failure
	}
	until := registered.Expiry.Time().Add(i.config.ClockSkew)
	identity.Expires = until
	return verified{identity: identity, until: until, issuer: i, generation: state.generation}, nil
}

// verifySignature finds the key that signed the token, and reads the claims. It returns
// the keys that it used.
func (i *issuer) verifySignature(ctx context.Context, parsed *jwt.JSONWebToken, claims *map[string]json.RawMessage, waits func()) (*keyState, *Error) {
	state, err := i.keys.current(ctx, waits)
	if err != nil {
		return nil, i.unreachable(err)
	}
	signed, known := trySignature(parsed, state.keys, claims)
	newer := false
	if !signed && !known {
		if newer, err = i.keys.refetch(ctx, waits); err != nil {
			return nil, i.unreachable(err)
		}
		if newer {
			if state, err = i.keys.current(ctx, waits); err != nil {
				return nil, i.unreachable(err)
			}
			signed, known = trySignature(parsed, state.keys, claims)
		}
	}
	switch {
	case signed:
		return state, nil
	case !known && state.err != nil:
		// The issuer may have published the key since.
		return nil, i.unreachable(state.err)
	case known:
		return nil, refuse(ReasonWrongKey, "the bearer token's signature is not its issuer's", i.detail("signature"))
	case !newer && i.mayBeNewer(parsed, state.fetched):
		failure := refuse(ReasonWrongKey, "the bearer token is signed with a key that its issuer did not publish some seconds ago; try again later", i.detail("unknown key"))
		failure.later = true
		return nil, failure
	}
	return nil, refuse(ReasonWrongKey, "the bearer token is signed with a key that its issuer does not publish", i.detail("unknown key"))
}

// mayBeNewer reports whether the key that signed a token may have been published since the keys were fetched: the token was
// issued since, by its own word, which decides only what its caller is told.
func (i *issuer) mayBeNewer(parsed *jwt.JSONWebToken, fetched time.Time) bool {
	var claims jwt.Claims
	return parsed.UnsafeClaimsWithoutVerification(&claims) == nil && claims.IssuedAt != nil &&
		claims.IssuedAt.Time().Add(i.config.ClockSkew).After(fetched)
}

// trySignature reports whether one of the keys signed the token, and whether any of
// them has its key id: one without may be signed by a new key.
func trySignature(parsed *jwt.JSONWebToken, keys []jose.JSONWebKey, claims *map[string]json.RawMessage) (signed, known bool) {
	header := parsed.Headers[0]
	for k := range keys {
		key := &keys[k]
		if header.KeyID != "" && key.KeyID != header.KeyID {
			continue
		}
		known = header.KeyID != ""
		if key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if parsed.Claims(key.Key, claims) == nil {
			return true, true
		}
	}
	return false, known
}

// checkRegistered checks the claims common to all tokens.
func (i *issuer) checkRegistered(claims *jwt.Claims, now time.Time) *Error {
	if claims.Expiry == nil {
		return refuse(ReasonWrongClaims, "the bearer token has no expiry (exp)", i.detail("no exp"))
	}
	err := claims.ValidateWithLeeway(jwt.Expected{Issuer: i.config.Issuer, AnyAudience: i.config.Audiences, Time: now}, i.config.ClockSkew)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return wrongIssuer()
	case errors.Is(err, jwt.ErrInvalidAudience):
		return refuse(ReasonWrongAudience, fmt.Sprintf("the bearer token is not meant for this service: its audience (aud) must have one of %q", i.config.Audiences), i.detail("audience"))
	case errors.Is(err, jwt.ErrExpired):
		return refuse(ReasonExpired, "the bearer token expired at "+claims.Expiry.Time().UTC().Format(time.RFC3339), i.detail("exp"))
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return refuse(ReasonNotYetValid, "the bearer token is not valid yet: is the clock of its issuer, or of this service, wrong?", i.detail("nbf or iat"))
	}
	return refuse(ReasonWrongClaims, "the bearer token's claims are invalid", i.detail("claims"))
}

func wrongIssuer() *Error {
	return refuse(ReasonWrongIssuer, "the bearer token is from an issuer (iss) that this service does not trust", nil)
}

// identity reads the identity from the claims.
func (i *issuer) identity(claims map[string]json.RawMessage) (*Identity, *Error) {
	refused := func(claim, what string) (*Identity, *Error) {
		return nil, refuse(ReasonWrongClaims, fmt.Sprintf("the bearer token's claim %s %s", claim, what), i.detail("claim "+claim))
	}
	delete(claims, "") // which no setting names: a GroupsClaim of "" is none
	prefix := string(MethodOIDC) + ":" + i.config.Prefix
	var username string
	if json.Unmarshal(claims[i.config.UsernameClaim], &username) != nil || !validName(username) {
		return refused(i.config.UsernameClaim, "must be a name: printable text")
	}
	// Anyone can claim an unverified address.
	if verified, there := claims["email_verified"]; i.config.UsernameClaim == "email" && there && string(verified) != "true" {
		return refused("email_verified", "must be true")
	}
	groups, ok := readGroups(claims[i.config.GroupsClaim], prefix)
	if !ok {
		return refused(i.config.GroupsClaim, "must be a list of names of groups")
	}
	return &Identity{Name: prefix + username, Method: MethodOIDC, Groups: groups}, nil
}

// readGroups reads a list of groups, or a single one; raw may be absent.
func readGroups(raw json.RawMessage, prefix string) (Groups, bool) {
	if raw == nil || string(raw) == "null" {
		return Groups{}, true
	}
	var names []string
	if json.Unmarshal(raw, &names) != nil {
		var name string
		if json.Unmarshal(raw, &name) != nil {
			return Groups{}, false
		}
		names = []string{name}
	}
	if slices.ContainsFunc(names, func(name string) bool { return !validName(name) }) {
		return Groups{}, false
	}
	for n := range names {
		names[n] = prefix + names[n]
	}
	return NewGroups(names...), true
}

// detail returns, for logs, whose token it was and which part of it was wrong.
func (i *issuer) detail(what string) error {
	return fmt.Errorf("JWT of %s: %s", i.config.Issuer, what)
}

// unreachable is the error for callers while the keys can't be fetched.
func (i *issuer) unreachable(err error) *Error {
	return refuse(ReasonIssuerUnreachable, "the bearer token can't be checked now: the keys of its issuer could not be fetched; try again later", fmt.Errorf("keys of %s: %w", i.config.Issuer, err))
}
