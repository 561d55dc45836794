package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/evanw/esbuild/pkg/api"
)

const (
	head = `<script src="/ui/assets/early.js"></script>
<link rel="stylesheet" href="/ui/assets/main.css">
<script type="module" src="/ui/assets/main.js"></script>
<script src="/ui/assets/reload.js"></script>`
	reload = `new EventSource("/esbuild").addEventListener("change", () => location.reload());`
)

// develop serves the page from its sources, bundled anew for each request, and reloads it in the
// browser when one is saved. Everything else comes from a running service: calls, the engine, and
// the headers of the page, so that it has the service's content security policy.
func develop(address, service string) error {
	root, err := filepath.Abs(web)
	if err != nil {
		return err
	}
	to, err := url.Parse(service)
	if err != nil || to.Host == "" {
		return fmt.Errorf("-service: %q is not a URL such as http://127.0.0.1:8080", service)
	}
	options := bundle(root)
	options.EntryPoints = []string{"src/main.tsx", "src/early.ts", "src/playground/playground-worker.ts"}
	options.EntryNames, options.Sourcemap = "[name]", api.SourceMapInline
	options.MinifyWhitespace, options.MinifyIdentifiers, options.MinifySyntax = false, false, false
	bundler, failed := api.Context(options)
	if failed != nil {
		return failed
	}
	if err := bundler.Watch(api.WatchOptions{}); err != nil {
		return err
	}
	built, err := bundler.Serve(api.ServeOptions{Host: "127.0.0.1"})
	if err != nil {
		return err
	}
	assets := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", built.Port)})
	calls := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host }, // the service judges the host that was asked for
		FlushInterval:  -1,                                                                      // a watch's decisions come as they are made
		ModifyResponse: func(r *http.Response) error { return page(root, r) },
	}
	mux := http.NewServeMux()
	mux.Handle("/esbuild", assets)
	mux.Handle("/ui/assets/", http.StripPrefix("/ui/assets", assets))
	mux.HandleFunc("/ui/assets/reload.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = io.WriteString(w, reload)
	})
	mux.Handle("/", calls)
	fmt.Printf("http://%s/ui/ is built from web/src, and reloads when a file is saved; calls go to %s\n", address, service)
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Minute}
	return server.ListenAndServe()
}

// page puts the sources' index.html in place of the service's.
func page(root string, r *http.Response) error {
	if r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Request.URL.Path, base) || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(root, "src/index.html"))
	if err != nil {
		return err
	}
	html := strings.Replace(string(text), mark, head, 1)
	for _, name := range []string{"Content-Encoding", "ETag", "Last-Modified"} {
		r.Header.Del(name)
	}
	r.Header.Set("Content-Length", fmt.Sprint(len(html)))
	if err := r.Body.Close(); err != nil {
		return err
	}
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(html)), int64(len(html))
	return nil
}
