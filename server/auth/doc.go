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
// A bearer token comes before a certificate: it is sent on purpose, whereas a mesh
// may add its certificate to every connection. Bad credentials are refused, even if
// others are there that would do.
//
// # Names
//
// The name of an identity begins with what vouches for it, so that none can pass for
// one of another kind:
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
// It knows nothing of gRPC, issues no JWTs, and does not ask whether a JWT has been
// revoked: such a token ends when it expires, or when its key or its issuer is
// removed. A static token ends with the next look at the file.
package auth
