// Package signin signs users of the web page in with an OpenID Connect issuer: the code flow
// with PKCE. The service runs it, because the page sends requests to the service only.
//
//	GET  /ui/sign-in            leads to the issuer
//	GET  /ui/sign-in/callback   takes the code, and begins a session
//	POST /ui/sign-out           ends it
//
// # The flow
//
// What belongs to one sign-in (state, nonce, PKCE's verifier, where to go afterwards) is in a
// cookie of the browser that began it, sealed and good for ten minutes: no instance remembers
// anything, and any of them may take the answer. The answer counts only in that browser, and
// only once, for the cookie goes with it and the issuer takes a code once.
//
// # The session
//
// A session is the issuer's ID token, sealed, in a cookie that scripts can't read. Calls of the
// API are made with it as with the same token in an Authorization header: the signature,
// issuer, audience and expiry are checked by the same rules with each call, and what the
// policy says of the identity applies. It counts only where the browser says that our own page
// asks (Sec-Fetch-Site: same-origin) and the page says so too, by a header that a form or a
// link can't send; SameSite=Strict is a third wall. So no other page can use it, and a cookie
// that was stolen is no bearer token.
//
// The key is one that instances share through their store (store.Secrets), like that of page
// tokens, and each instance's own where the store is not shared. Whoever knows the key can open
// cookies, and make none that count: the issuer's signature is within.
package signin
