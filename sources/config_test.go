package sources

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestSettingsThatAreRefused(t *testing.T) {
	for _, tt := range []struct{ name, url, file, want string }{
		{name: "no URL", url: "prometheus:9090", want: "--source-urls: "},
		{name: "another scheme", url: "file:///etc/passwd", want: "--source-urls: "},
		{name: "gopher", url: "gopher://redis:6379/x", want: "must begin with http://"},
		{name: "a password", url: "http://a:secret@host", want: "the URL of host must hold no user or password"},
		{name: "no database", url: "redis://host/x", want: "number of a database"},
		{name: "a database as a parameter", url: "redis://host:6379?db=2", want: "the URL of host:6379 must have no parameters: the number of a database is its path, redis://host:6379/2"},
		{name: "a password as a parameter", url: "rediss://host/2?password=secret", want: "the URL of host must have no parameters"},
		{name: "no document", file: "{", want: "--sources-file: "},
		{name: "another part", file: "metrics: {}", want: "metrics"},
		{name: "nobody's source", file: "sources: {a: {http: {url: 'http://a'}}}", want: "sources.a.namespaces: is required"},
		{name: "a grant to no namespace", file: "sources: {a: {http: {url: 'http://a'}, namespaces: [clusters/c]}}", want: "sources.a.namespaces[0]: must be clusters/"},
		{name: "a grant to a pattern", file: "sources: {a: {http: {url: 'http://a'}, namespaces: ['clusters/c/namespaces/*']}}", want: "sources.a.namespaces[0]: must be clusters/"},
		{name: "an unknown field", file: "sources: {a: {http: {url: 'http://a', proxy: x}, namespaces: [clusters/c/namespaces/n]}}", want: "proxy"},
		{name: "a credential in the clear", file: "sources: {a: {http: {url: 'http://a', bearerTokenFile: x}, namespaces: [clusters/c/namespaces/n]}}", want: "in the clear"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{}
			if tt.url != "" {
				o.URLs = []string{tt.url}
			}
			if tt.file != "" {
				o.File = write(t, tt.file)
			}
			s, err := New(o)
			s.Close()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error holds the password: %v", err)
			}
		})
	}
}

func TestSourcesOfURLsHaveNamesOfTheirOwn(t *testing.T) {
	file := write(t, "sources: {a-9090-http: {http: {url: 'http://b'}, namespaces: [clusters/-/namespaces/-]}}")
	s, err := New(Options{URLs: []string{"http://a:9090", "https://a:9090", "redis://a:9090/3"}, File: file})
	fatal.If(t, err)
	defer s.Close()
	seen := map[string]bool{"a-9090-http": true}
	for _, kinds := range s.urls {
		for kind, name := range kinds {
			if seen[name] {
				t.Errorf("two sources are called %s", name)
			}
			if !strings.Contains(name, kind) {
				t.Errorf("%s is of kind %s", name, kind)
			}
			seen[name] = true
		}
	}
	if len(seen) != 6 {
		t.Errorf("%d sources, want 6: %v", len(seen), seen)
	}
}

func TestWithoutURLsThereAreNoSources(t *testing.T) {
	if s, err := New(Options{URLs: []string{}}); s != nil || err != nil {
		t.Errorf("got %v, %v", s, err)
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "sources.yaml")
	fatal.If(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}
