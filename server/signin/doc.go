// Package signin signs users of the web page in with an OpenID Connect issuer: the code flow
// with PKCE. The service runs it, because the page may send requests to the service only.
//
//	GET  /ui/sign-in            leads to the issuer
//	GET  /ui/sign-in/callback   takes the code, and begins a session
//	POST /ui/sign-out           ends it
//
// # The flow
//
// The state of one sign-in (state, nonce, PKCE's verifier, where to go afterwards) is in a
// cookie of the browser that started it, sealed and valid for ten minutes: any instance can handle
// the issuer's response. The response is valid only in that browser, and only once, because it
// removes the cookie and the issuer accepts a code once. An instance remembers the states that were
// answered, so that nobody has it ask the issuer again and again with one cookie.
//
// # The session
//
// A session is the issuer's ID token, sealed, in a cookie that scripts can't read. It
// authenticates calls of the API like the same token in an Authorization header: the signature,
// issuer, audience and expiry are checked by the same rules with each call, and the policy
// applies to the identity. It is valid only for requests of our own page: the browser must say
// so (Sec-Fetch-Site: same-origin), and the page must send a header that a form or a link can't
// send; SameSite=Strict is a third protection. So no other page can use it, and a stolen cookie
// is not a bearer token.
//
// Instances share the key through their store (store.Secrets), like that of page tokens;
// without a shared store each instance has its own. The key can open cookies, but not create
// valid ones: they contain the issuer's signature.
package signin
