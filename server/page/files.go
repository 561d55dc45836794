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
	// leastCompressed is the least that is worth compressing, in bytes: it fits one packet.
	leastCompressed = 1400
)

// types are the media types of files, by their extension: those of the machine's own list
// may be others.
var types = map[string]string{
	".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8", ".ico": "image/x-icon",
	".js": "text/javascript; charset=utf-8", ".json": "application/json", ".map": "application/json",
	".mjs": "text/javascript; charset=utf-8", ".png": "image/png", ".svg": "image/svg+xml",
	".txt": "text/plain; charset=utf-8", ".wasm": "application/wasm", ".webmanifest": "application/manifest+json",
	".woff2": "font/woff2", ".yaml": "text/plain; charset=utf-8", ".md": "text/plain; charset=utf-8",
}

// packed are the types that are small already.
var packed = map[string]bool{".ico": true, ".png": true, ".woff2": true}

// hashed are names that a bundler has put a hash into, of eight characters: main-K2VQ7XWA.js.
var hashed = regexp.MustCompile(`[-.][A-Z0-9]{8}\.[a-z0-9.]+$`)

// worker are names of scripts that run in a worker.
var worker = regexp.MustCompile(`(^|[-_.])worker[-_.]`)

// Files serves the files of a page. It is safe for concurrent use.
type Files struct {
	files map[string]*file
	// folders are those at the top: what is not in one of them is not the page's.
	folders map[string]bool
}

// file is one of them, in the forms it can be sent in.
type file struct {
	contentType, cacheControl, policy, tag string
	plain                                  []byte
	// brotli and gzip are compressed, nil where that is not to be had, or not worth it.
	brotli []byte
	gzip   func() []byte
	// unpack returns the file itself where plain is not kept; nil: it is.
	unpack func() []byte
}

// content is the file itself.
func (f *file) content() []byte {
	if f.unpack != nil {
		return f.unpack()
	}
	return f.plain
}

// New returns the files of a page, which must have an index.html. They are read now.
func New(from fs.FS) (*Files, error) {
	f := &Files{files: make(map[string]*file), folders: make(map[string]bool)}
	contents := make(map[string][]byte)
	err := fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name != "." && !strings.Contains(name, "/") {
				f.folders[name] = true
			}
			return nil
		}
		contents[name], err = fs.ReadFile(from, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the page's files: %w", err)
	}
	for name, content := range contents {
		if isVariant(name, contents) || strings.HasSuffix(name, ".gz") {
			continue // gzip without its file is what an older build has left
		}
		// One that is there as brotli only is unpacked for those who don't take that: browsers that
		// don't trust the connection.
		if plain, only := strings.CutSuffix(name, ".br"); only {
			if f.files[plain], err = newPackedFile(plain, content); err != nil {
				return nil, err
			}
			continue
		}
		if f.files[name], err = newFile(name, content, contents[name+".br"], contents[name+".gz"]); err != nil {
			return nil, err
		}
	}
	if f.files[index] == nil {
		return nil, errors.New("the page has no " + index)
	}
	return f, nil
}

// isVariant reports whether a file is another, which is there, in a compressed form.
func isVariant(name string, contents map[string][]byte) bool {
	for _, suffix := range []string{".br", ".gz"} {
		if plain, is := strings.CutSuffix(name, suffix); is && contents[plain] != nil {
			return true
		}
	}
	return false
}

// maxUnpacked bounds what an embedded file may unpack to, in bytes.
const maxUnpacked = 64 << 20

// newPackedFile is newFile for a file that exists only as brotli. Clients that take gzip, or the
// file itself, get it made from that once.
func newPackedFile(name string, packed []byte) (*file, error) {
	f, err := newFile(name, packed, packed, nil)
	if err != nil {
		return nil, err
	}
	f.plain = nil
	f.unpack = sync.OnceValue(func() []byte {
		content, err := io.ReadAll(io.LimitReader(brotli.NewReader(bytes.NewReader(packed)), maxUnpacked))
		if err != nil {
			return nil
		}
		return content
	})
	f.gzip = sync.OnceValue(func() []byte { return compress(f.unpack()) })
	return f, nil
}

func newFile(name string, content, brotli, gzipped []byte) (*file, error) {
	extension := path.Ext(name)
	f := &file{contentType: types[extension], cacheControl: "no-cache", policy: Policy, plain: content, brotli: brotli}
	if f.contentType == "" {
		return nil, fmt.Errorf("the page's file %s: no media type is known for %q", name, extension)
	}
	if base := path.Base(name); hashed.MatchString(base) {
		f.cacheControl = "public, max-age=31536000, immutable"
	}
	if worker.MatchString(path.Base(name)) {
		f.policy = WorkerPolicy
	}
	sum := sha256.Sum256(content)
	f.tag = hex.EncodeToString(sum[:12])
	switch {
	case gzipped != nil:
		f.gzip = func() []byte { return gzipped }
	case packed[extension] || len(content) < leastCompressed:
		f.gzip = func() []byte { return nil }
	default:
		f.gzip = sync.OnceValue(func() []byte { return compress(content) })
	}
	return f, nil
}

func compress(content []byte) []byte {
	var into bytes.Buffer
	w, _ := gzip.NewWriterLevel(&into, gzip.BestCompression) // the level is right
	_, _ = w.Write(content)                                  // to memory
	_ = w.Close()
	return into.Bytes()
}

// ServeHTTP serves the file at the path, index.html at paths of the page's own.
func (f *Files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	found := f.files[name]
	if found == nil && f.isRoute(name) {
		found = f.files[index]
	}
	if found == nil {
		SetHeaders(w.Header(), Policy)
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "the page has no such file", http.StatusNotFound)
		return
	}
	found.serve(w, r)
}

// isRoute reports whether a path may be one of the page's own rather than a file's: it is in
// none of the folders, and at the top it has no dot. Further down it may, as a target's name.
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
		// Each form is a thing of its own to caches, and so are parts of it.
		tag += "-" + encoding
		h.Set("Content-Encoding", encoding)
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	h.Set("Etag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// variant returns the form of a file for a caller; a request of a range gets the file itself.
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

// accepts reports whether an Accept-Encoding names an encoding, and not with the weight 0.
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
