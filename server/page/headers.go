package page

import "net/http"

// Policies of content: what a page may load and do. Each lets a page send requests only
// to the service that it came from, run no script but the service's own files, and be shown in
// no other page.
const (
	// Policy is that of all files but those below.
	Policy = common + "; script-src 'self'; style-src 'self'; img-src 'self' data:"
	// WorkerPolicy is that of scripts that run WebAssembly, in a worker: a worker has the
	// policy that its script came with, so that the page itself needs no such right.
	WorkerPolicy = common + "; script-src 'self' 'wasm-unsafe-eval'"
	// DocumentationPolicy is that of the API's description: Swagger UI writes styles into
	// the elements that it makes.
	DocumentationPolicy = common + "; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"

	common = "default-src 'none'; connect-src 'self'; font-src 'self'; manifest-src 'self'; worker-src 'self'; " +
		"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)

// SetHeaders sets the headers that every answer to a browser has.
func SetHeaders(h http.Header, policy string) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// WithHeaders sets them for all that a handler answers.
func WithHeaders(policy string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		SetHeaders(w.Header(), policy)
		next.ServeHTTP(w, r)
	})
}
