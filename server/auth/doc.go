// Package auth authenticates callers. Package policy authorizes them.
//
//	a, err := auth.New(auth.Options{Certificates: true, TokensFile: "tokens.yaml", OIDCFile: "oidc.yaml"})
//	…
//	defer a.Close()
//	identity, err := a.Authenticate(ctx, auth.Credentials{Authorization: header, TLS: &state})
//
// There are three kinds of credentials, each optional:
//
//   - the certificate of a TLS client, which the TLS listener has verified;
//   - a static bearer token, whose SHA-256 is in a file;
//   - a JWT of an OpenID Connect issuer, as a bearer token.
//
// A bearer token takes precedence over a certificate: it is sent on purpose, whereas a mesh may add
// its certificate to every connection. Invalid credentials are refused, even if the call has others
// that are valid.
//
// # Names
//
// The name of an identity begins with the kind of credentials, so that no identity can pass for one
// of another kind:
//
//	certificate:uri:spiffe://example.com/ns/shop/sa/agent
//	certificate:dns:agent.shop.svc
//	certificate:cn:agent
//	token:agent
//	oidc:corp:alice         where corp: is the issuer's prefix
//	anonymous
//
// # What it does not do
//
// It does not depend on gRPC, issues no JWTs, and does not check whether a JWT has been revoked:
// such a token is valid until it expires, or until its key or its issuer is removed. A static token
// is valid until a reload of the file without it.
package auth
