// Package web has the page that the service serves at /ui/, ready to be sent: no file of it is
// made when the service is built or runs.
//
// The sources are in src, the page in dist; «make web» makes one of the other. Names in
// dist/assets have a hash of their content, so they may be cached for ever; index.html is the
// answer to every path below /ui/ that names no file, for the page routes by itself.
package web

import (
	"embed"
	"io/fs"
)

//go:embed dist
var dist embed.FS

// Files are the page's files: index.html, favicon.svg, LICENSES.txt and assets/.
func Files() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // only for an invalid path
	}
	return files
}
