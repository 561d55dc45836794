package page_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/andybalholm/brotli"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/page"
)

var (
	script = strings.Repeat("export const a = 1;\n", 500)
	files  = fstest.MapFS{
		"index.html":                  {Data: []byte("<!doctype html><title>Setpoint</title><script src=\"/ui/a.js\"></script>")},
		"LICENSES.txt":                {Data: []byte("none")},
		"assets/main-K2VQ7XWA.js":     {Data: []byte(script)},
		"assets/worker-K2VQ7XWB.js":   {Data: []byte(script)},
		"assets/engine-K2VQ7XWC.wasm": {Data: []byte("\x00asm" + script)},
	}
)

func serve(tb testing.TB) http.Handler {
	tb.Helper()
	f, err := page.New(files)
	fatal.If(tb, err)
	return f
}

// get requests a path, with headers in pairs.
func get(tb testing.TB, method, path string, headers ...string) *http.Response {
	tb.Helper()
	r := httptest.NewRequestWithContext(tb.Context(), method, path, http.NoBody)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	serve(tb).ServeHTTP(w, r)
	return w.Result()
}

func body(tb testing.TB, r *http.Response) string {
	tb.Helper()
	var from io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		from, err = gzip.NewReader(r.Body)
		fatal.If(tb, err)
	}
	text, err := io.ReadAll(from)
	fatal.If(tb, err)
	return string(text)
}

// The page finds its files from wherever it is shown, also below a path that a proxy takes away.
func TestAddressesAreRelative(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/": "./a.js", "/index.html": "./a.js", "/playground": "./a.js", "/clusters/c/namespaces/n/targets/t": "./../../../../../a.js",
		"/clusters/c/namespaces/n/targets/t/fleet": "./../../../../../../a.js", "/clusters/c%2Fd/x": "./../../a.js", strings.Repeat("/x", 300): "./" + strings.Repeat("../", 8) + "a.js",
	} {
		if got := body(t, get(t, http.MethodGet, path)); !strings.Contains(got, `src="`+want+`"`) {
			t.Errorf("%.40s: %s, want %s", path, got, want)
		}
	}
}

func TestWhatIsServedAtAPath(t *testing.T) {
	t.Parallel()
	const forEver, again = "public, max-age=31536000, immutable", "no-cache"
	for _, tt := range []struct {
		path, contentType, cache string
		code                     int
	}{
		{"/", "text/html; charset=utf-8", again, 200},
		{"/index.html", "text/html; charset=utf-8", again, 200},
		{"/LICENSES.txt", "text/plain; charset=utf-8", again, 200},
		{"/assets/main-K2VQ7XWA.js", "text/javascript; charset=utf-8", forEver, 200},
		{"/assets/engine-K2VQ7XWC.wasm", "application/wasm", forEver, 200},
		// Paths of the page's own; a target's name may look like a file's.
		{"/playground", "text/html; charset=utf-8", again, 200},
		{"/clusters/prod/namespaces/shop/targets/main.js", "text/html; charset=utf-8", again, 200},
		// What is gone with a new version must not be taken for a script.
		{"/assets/main-OLDOLDOL.js", "text/plain; charset=utf-8", "no-store", 404},
		{"/assets/main-K2VQ7XWA.js.br", "text/plain; charset=utf-8", "no-store", 404},
		{"/assets", "text/plain; charset=utf-8", "no-store", 404},
		{"/assets/", "text/plain; charset=utf-8", "no-store", 404},
		{"/favicon.ico", "text/plain; charset=utf-8", "no-store", 404},
		{"/.git", "text/plain; charset=utf-8", "no-store", 404},
	} {
		got := get(t, http.MethodGet, tt.path)
		if got.StatusCode != tt.code || got.Header.Get("Content-Type") != tt.contentType || got.Header.Get("Cache-Control") != tt.cache {
			t.Errorf("%s: %d, %s, %s; want %d, %s, %s", tt.path, got.StatusCode, got.Header.Get("Content-Type"), got.Header.Get("Cache-Control"), tt.code, tt.contentType, tt.cache)
		}
		for _, name := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy"} {
			if got.Header.Get(name) == "" {
				t.Errorf("%s has no %s", tt.path, name)
			}
		}
	}
}

// Only a worker may run WebAssembly, and nothing may be evaluated or written into a page.
func TestPolicyOfContent(t *testing.T) {
	t.Parallel()
	for path, wasm := range map[string]bool{"/": false, "/playground": false, "/assets/main-K2VQ7XWA.js": false, "/assets/worker-K2VQ7XWB.js": true, "/nothing.js": false} {
		policy := get(t, http.MethodGet, path).Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: %q lacks %s", path, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe-inline") || strings.Contains(policy, "'unsafe-eval'") || strings.Contains(policy, "wasm-unsafe-eval") != wasm {
			t.Errorf("%s: %q, want WebAssembly allowed %t and nothing else", path, policy, wasm)
		}
	}
}

func TestCompressedForms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ path, accepted, want string }{
		{"/assets/main-K2VQ7XWA.js", "gzip, br", "gzip"},
		{"/assets/main-K2VQ7XWA.js", "gzip", "gzip"},
		{"/assets/main-K2VQ7XWA.js", "GZIP;q=0.5", "gzip"},
		{"/assets/main-K2VQ7XWA.js", "gzip;q=0, br;q=0", ""},
		{"/assets/main-K2VQ7XWA.js", "gzip;q=nonsense", ""},
		{"/assets/main-K2VQ7XWA.js", "", ""},
		{"/assets/engine-K2VQ7XWC.wasm", "gzip, br", "gzip"},
		{"/", "gzip, br", ""}, // one packet either way
	} {
		got := get(t, http.MethodGet, tt.path, "Accept-Encoding", tt.accepted)
		if encoding := got.Header.Get("Content-Encoding"); encoding != tt.want || got.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s for %q: encoded as %q, Vary %q; want %q", tt.path, tt.accepted, encoding, got.Header.Get("Vary"), tt.want)
		}
		if text := body(t, got); tt.path != "/" && !strings.HasSuffix(text, script) {
			t.Errorf("%s for %q: other content", tt.path, tt.accepted)
		}
	}
}

// A file that exists only as brotli is decompressed for clients that accept gzip, or no
// encoding.
func TestWhatIsThereAsBrotliOnly(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w := brotli.NewWriter(&packed)
	if _, err := w.Write([]byte(script)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	f, err := page.New(fstest.MapFS{
		"index.html": {Data: []byte("x")}, "engine/e.wasm.br": {Data: packed.Bytes()},
	})
	fatal.If(t, err)
	for accepted, want := range map[string]string{"br, gzip": "br", "gzip, deflate": "gzip", "": ""} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/engine/e.wasm", http.NoBody)
		r.Header.Set("Accept-Encoding", accepted)
		got := httptest.NewRecorder()
		f.ServeHTTP(got, r)
		if got.Code != http.StatusOK || got.Header().Get("Content-Encoding") != want || got.Header().Get("Content-Type") != "application/wasm" {
			t.Errorf("%q: %d, %q, %s", accepted, got.Code, got.Header().Get("Content-Encoding"), got.Header().Get("Content-Type"))
		}
		content := io.Reader(got.Body)
		switch want {
		case "br":
			content = brotli.NewReader(content)
		case "gzip":
			content, err = gzip.NewReader(content)
			fatal.If(t, err)
		}
		if text, err := io.ReadAll(content); err != nil || string(text) != script {
			t.Errorf("%q: %v, other content: %d bytes", accepted, err, len(text))
		}
	}
}

func TestTagsPartsAndHeads(t *testing.T) {
	t.Parallel()
	const path = "/assets/main-K2VQ7XWA.js"
	plain, zipped := get(t, http.MethodGet, path), get(t, http.MethodGet, path, "Accept-Encoding", "gzip")
	if plain.Header.Get("Etag") == zipped.Header.Get("Etag") {
		t.Error("both forms have one tag")
	}
	same := get(t, http.MethodGet, path, "Accept-Encoding", "gzip", "If-None-Match", zipped.Header.Get("Etag"))
	if same.StatusCode != http.StatusNotModified || body(t, &http.Response{Body: same.Body}) != "" {
		t.Errorf("asked for again: %d, want 304", same.StatusCode)
	}
	part := get(t, http.MethodGet, path, "Accept-Encoding", "gzip", "Range", "bytes=0-5")
	if part.StatusCode != http.StatusPartialContent || body(t, part) != script[:6] {
		t.Errorf("a part: %d", part.StatusCode)
	}
	if beyond := get(t, http.MethodGet, path, "Range", "bytes=99999-"); beyond.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a part that is not there: %d", beyond.StatusCode)
	}
	head := get(t, http.MethodHead, path, "Accept-Encoding", "gzip")
	if head.StatusCode != http.StatusOK || head.Header.Get("Content-Length") != zipped.Header.Get("Content-Length") || body(t, &http.Response{Body: head.Body}) != "" {
		t.Errorf("HEAD: %d, length %s, want %s", head.StatusCode, head.Header.Get("Content-Length"), zipped.Header.Get("Content-Length"))
	}
}

// A precondition that fails has an answer without a body, and one that holds the file; both whole.
func TestPreconditionsOfCompressedFiles(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(serve(t))
	defer s.Close()
	const path = "/assets/worker-K2VQ7XWB.js"
	tag := get(t, http.MethodGet, path, "Accept-Encoding", "gzip").Header.Get("Etag")
	for match, want := range map[string]int{`"another"`: http.StatusPreconditionFailed, tag: http.StatusOK} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, http.NoBody)
		fatal.If(t, err)
		r.Header.Set("Accept-Encoding", "gzip")
		r.Header.Set("If-Match", match)
		answer, err := s.Client().Do(r)
		fatal.If(t, err)
		content, err := io.ReadAll(answer.Body)
		if answer.Body.Close(); err != nil || answer.StatusCode != want || (len(content) > 0) != (want == http.StatusOK) {
			t.Errorf("If-Match: %s: %d with %d bytes, %v; want %d", match, answer.StatusCode, len(content), err, want)
		}
	}
}

func TestAPageThatCannotBeServed(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]fstest.MapFS{
		"no index.html":  {"main.js": {Data: []byte("1")}},
		"an unknown one": {"index.html": {Data: []byte("1")}, "main.exe": {Data: []byte("1")}},
	} {
		if _, err := page.New(from); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}
