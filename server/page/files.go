package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/andybalholm/brotli"
)

const (
	index = "index.html"
	// home begins the addresses in index.html. They are served relative to the page's own, so that the
	// page also works below a path that a proxy takes away, without a setting for it.
	home = `"/ui/`
	// deepest is the most segments of a route that are above its last.
	deepest = 8
	// leastCompressed is the size in bytes below which compression is not worthwhile: such
	// a file fits one packet.
	leastCompressed = 1400
)

// types are the media types of files, by extension. The machine's own list may differ.
var types = map[string]string{
	".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8", ".ico": "image/x-icon",
	".js": "text/javascript; charset=utf-8", ".json": "application/json", ".map": "application/json",
	".mjs": "text/javascript; charset=utf-8", ".png": "image/png", ".svg": "image/svg+xml",
	".txt": "text/plain; charset=utf-8", ".wasm": "application/wasm", ".webmanifest": "application/manifest+json",
	".woff2": "font/woff2", ".yaml": "text/plain; charset=utf-8", ".md": "text/plain; charset=utf-8",
}

// packed are the types that are already compressed.
var packed = map[string]bool{".ico": true, ".png": true, ".woff2": true}

// hashed matches names with a bundler's hash of eight characters: main-K2VQ7XWA.js.
var hashed = regexp.MustCompile(`[-.][A-Z0-9]{8}\.[a-z0-9.]+$`)

// worker matches names of scripts that run in a worker.
var worker = regexp.MustCompile(`(^|[-_.])worker[-_.]`)

// Files serves the files of a page. It is safe for concurrent use.
type Files struct {
	files map[string]func() (*file, error)
	// indexes are index.html for routes, by the number of segments above their last.
	indexes [deepest + 1]func() (*file, error)
	// folders are the top-level folders: paths in them are never routes of the page.
	folders map[string]bool
}

// file is a file in the encodings it can be sent in.
type file struct {
	contentType, cacheControl, policy, tag string
	plain                                  []byte
	// brotli and gzip are compressed; nil if unavailable or not worthwhile.
	brotli []byte
	gzip   func() []byte
	// unpack returns the content if plain is not stored; nil: it is.
	unpack func() []byte
}

// content returns the uncompressed file.
func (f *file) content() []byte {
	if f.unpack != nil {
		return f.unpack()
	}
	return f.plain
}

// New lists the files of a page, which must have an index.html. Each is read when a client first asks for it: most
// services are never asked, and the playground's engine alone has megabytes.
func New(from fs.FS) (*Files, error) {
	f := &Files{files: make(map[string]func() (*file, error)), folders: make(map[string]bool)}
	err := fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if name != "." && !strings.Contains(name, "/") {
				f.folders[name] = true
			}
			return err
		}
		plain, isPacked := strings.CutSuffix(name, ".br")
		if types[path.Ext(plain)] == "" {
			return fmt.Errorf("%s: unknown media type of %q", plain, path.Ext(plain))
		}
		f.files[plain] = sync.OnceValues(func() (*file, error) {
			content, err := fs.ReadFile(from, name)
			if err != nil {
				return nil, err
			}
			if isPacked {
				return packedFile(plain, content), nil
			}
			return plainFile(plain, content), nil
		})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("the page's files: %w", err)
	}
	if f.files[index] == nil {
		return nil, errors.New("the page has no " + index)
	}
	for depth := range f.indexes {
		f.indexes[depth] = sync.OnceValues(func() (*file, error) {
			content, err := fs.ReadFile(from, index)
			if err != nil {
				return nil, err
			}
			relative := `"./` + strings.Repeat("../", depth)
			return plainFile(index, bytes.ReplaceAll(content, []byte(home), []byte(relative))), nil
		})
	}
	return f, nil
}

// maxUnpacked limits the decompressed size of an embedded file, in bytes.
const maxUnpacked = 64 << 20

// packedFile is a file that exists only as brotli. It is decompressed for clients that do not accept that: browsers on
// connections they do not trust.
func packedFile(name string, packed []byte) *file {
	f := newFile(name, packed)
	f.plain, f.brotli = nil, packed
	f.unpack = sync.OnceValue(func() []byte {
		content, err := io.ReadAll(io.LimitReader(brotli.NewReader(bytes.NewReader(packed)), maxUnpacked))
		if err != nil {
			return nil
		}
		return content
	})
	f.gzip = sync.OnceValue(func() []byte { return compress(f.unpack()) })
	return f
}

// plainFile is a file that is compressed when a client first needs it, if that is worthwhile.
func plainFile(name string, content []byte) *file {
	f := newFile(name, content)
	f.gzip = func() []byte { return nil }
	if !packed[path.Ext(name)] && len(content) >= leastCompressed {
		f.gzip = sync.OnceValue(func() []byte { return compress(content) })
	}
	return f
}

// newFile is a file without compressed forms; the content gives its tag.
func newFile(name string, content []byte) *file {
	f := &file{contentType: types[path.Ext(name)], cacheControl: "no-cache", policy: Policy, plain: content}
	if base := path.Base(name); hashed.MatchString(base) {
		f.cacheControl = "public, max-age=31536000, immutable"
	}
	if worker.MatchString(path.Base(name)) {
		f.policy = WorkerPolicy
	}
	sum := sha256.Sum256(content)
	f.tag = hex.EncodeToString(sum[:12])
	return f
}

func compress(content []byte) []byte {
	var into bytes.Buffer
	w, _ := gzip.NewWriterLevel(&into, gzip.BestCompression) // the level is valid
	_, _ = w.Write(content)                                  // memory never fails
	_ = w.Close()
	return into.Bytes()
}

// ServeHTTP serves the file at the path, and index.html at routes of the page.
func (f *Files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	found := f.files[name]
	if depth := strings.Count(r.URL.EscapedPath(), "/") - 1; name == index || found == nil && f.isRoute(name) {
		found = f.indexes[min(max(depth, 0), deepest)]
	}
	if found == nil {
		SetHeaders(w.Header(), Policy)
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "the page has no such file", http.StatusNotFound)
		return
	}
	file, err := found()
	if err != nil {
		http.Error(w, "the page's file can't be read", http.StatusInternalServerError)
		return
	}
	file.serve(w, r)
}

// isRoute reports whether a path may be a route of the page rather than a file's: it is in
// none of the folders, and at the top level it has no dot. Further down it may have one, as a
// target's name.
func (f *Files) isRoute(name string) bool {
	first, _, further := strings.Cut(name, "/")
	return !f.folders[first] && (further || !strings.Contains(first, "."))
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	SetHeaders(h, f.policy)
	h.Set("Content-Type", f.contentType)
	h.Set("Cache-Control", f.cacheControl)
	h.Add("Vary", "Accept-Encoding")
	body, encoding := f.variant(r)
	tag := f.tag
	if encoding != "" {
		// For caches, and for range requests, each encoding is a separate resource.
		tag += "-" + encoding
		h.Set("Content-Encoding", encoding)
		if r.Header.Get("If-Match") == "" { // else the answer may be 412, which has no body
			h.Set("Content-Length", strconv.Itoa(len(body)))
		}
	}
	h.Set("Etag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// variant returns the encoding of a file for a client; a range request gets the uncompressed
// file.
func (f *file) variant(r *http.Request) (body []byte, encoding string) {
	accepted := r.Header.Get("Accept-Encoding")
	if r.Header.Get("Range") != "" {
		return f.content(), ""
	}
	if f.brotli != nil && accepts(accepted, "br") {
		return f.brotli, "br"
	}
	if accepts(accepted, "gzip") {
		if body := f.gzip(); body != nil {
			return body, "gzip"
		}
	}
	return f.content(), ""
}

// accepts reports whether an Accept-Encoding allows an encoding, with a weight other than
// 0.
func accepts(accepted, encoding string) bool {
	for each := range strings.SplitSeq(accepted, ",") {
		name, parameters, _ := strings.Cut(each, ";")
		if !strings.EqualFold(strings.TrimSpace(name), encoding) {
			continue
		}
		weight, weighted := strings.CutPrefix(strings.TrimSpace(parameters), "q=")
		q, err := strconv.ParseFloat(weight, 64)
		return !weighted || err == nil && q > 0
	}
	return false
}
