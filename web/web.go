// Package web has the files of the page that the service serves at /ui/, ready to be sent: no file
// is created when the service is built or runs.
//
// The sources are in src, the page in dist; `make web` builds it, and `make engine` builds the
// playground's engine, in engine. Names in dist/assets have a hash of their content, so they may be
// cached for ever; every path below /ui/ that names no file gets index.html, because the page has
// its own routes.
package web

import (
	"embed"
	"io/fs"
	"slices"
	"strings"
)

//go:embed dist engine
var embedded embed.FS

// Files are the page's files: index.html, favicon.svg, LICENSES.txt, assets/, and engine/, the
// playground's engine if the program was built with it (`make engine`), compressed only.
func Files() fs.FS {
	dist, err := fs.Sub(embedded, "dist")
	if err != nil {
		panic(err) // only for an invalid path
	}
	return files{dist}
}

// engine is the folder that is built separately.
const engine = "engine"

// files are those of dist, and engine.
type files struct{ dist fs.FS }

// Open implements fs.FS.
func (f files) Open(name string) (fs.File, error) {
	if name == engine || strings.HasPrefix(name, engine+"/") {
		return embedded.Open(name)
	}
	return f.dist.Open(name)
}

// ReadDir implements fs.ReadDirFS.
func (f files) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == engine {
		return embedded.ReadDir(name)
	}
	entries, err := fs.ReadDir(f.dist, name)
	if err != nil || name != "." {
		return entries, err
	}
	info, err := fs.Stat(embedded, engine)
	if err != nil {
		return nil, err
	}
	entries = append(entries, fs.FileInfoToDirEntry(info))
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}
