// Package web has the page that the service serves at /ui/, ready to be sent: no file of it is
// made when the service is built or runs.
//
// The sources are in src, the page in dist; «make web» makes one of the other, and «make engine» the
// playground's engine, in engine. Names in
// dist/assets have a hash of their content, so they may be cached for ever; index.html is the
// answer to every path below /ui/ that names no file, for the page routes by itself.
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
// playground's engine where the program was built with it («make engine»), compressed only.
func Files() fs.FS {
	dist, err := fs.Sub(embedded, "dist")
	if err != nil {
		panic(err) // only for an invalid path
	}
	return files{dist}
}

// engine is the folder that is not made with the rest of the page.
const engine = "engine"

// files are those of dist, and engine beside them.
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
