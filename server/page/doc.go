// Package page serves the files of a web page from memory, with headers that protect the
// page from abuse.
//
//	files, err := page.New(embedded)
//	…
//	mux.Handle("GET /ui/", http.StripPrefix("/ui", files))
//
// A file with a hash of its content in its name may be cached for ever; any other is
// revalidated each time. Files that compress well are sent compressed to clients that
// accept it: from name.br or name.gz if such a file exists, else compressed once, at the
// first request.
//
// A path that names no file may be a route of the page, which gets index.html: the page
// itself interprets the path.
package page
