// Package page serves the files of a web page from memory, with the headers that keep it
// from being abused.
//
//	files, err := page.New(embedded)
//	…
//	mux.Handle("GET /ui/", http.StripPrefix("/ui", files))
//
// A file whose name has a hash of its content may be cached for ever; any other is asked
// for again each time, and answered in short while it is the same. Files that compress
// well are sent compressed to those who take it: as name.br or name.gz where such a file
// is beside name, else compressed once, when it is first asked for.
//
// A path that names no file may be one of the page's own, which gets index.html: the page
// looks at the path by itself.
package page
