package page

import "net/http"

// Content security policies. Each lets a page send requests only to the service that it came
// from, run only the service's own script files, and be embedded in no other page.
const (
	// Policy is the policy of all files except those below.
	Policy = common + "; script-src 'self'; style-src 'self'; img-src 'self' data:"
	// WorkerPolicy is the policy of scripts that run WebAssembly, in a worker: a worker
	// has the policy of its own script, so that the page itself does not need that right.
	WorkerPolicy = common + "; script-src 'self' 'wasm-unsafe-eval'"
	// DocumentationPolicy is the policy of the API's description: Swagger UI sets styles
	// on the elements that it creates.
	DocumentationPolicy = common + "; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"

	common = "default-src 'none'; connect-src 'self'; font-src 'self'; manifest-src 'self'; worker-src 'self'; " +
		"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)

// SetHeaders sets the headers of every response to a browser.
func SetHeaders(h http.Header, policy string) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// WithHeaders sets them for all responses of a handler.
func WithHeaders(policy string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		SetHeaders(w.Header(), policy)
		next.ServeHTTP(w, r)
	})
}
