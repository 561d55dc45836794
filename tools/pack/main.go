// Command pack compresses a file for servers: NAME.br beside NAME. With -best it uses brotli's
// highest level, which takes some ten times as long. With -gzip it writes NAME.gz, which Go's library reads.
package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/andybalholm/brotli"
)

func main() {
	best := flag.Bool("best", false, "compress at the highest level")
	gzipped := flag.Bool("gzip", false, "compress with gzip")
	flag.Parse()
	quality := 9
	if *best {
		quality = brotli.BestCompression
	}
	extension, compress := ".br", func(w io.Writer) (io.WriteCloser, error) {
		return brotli.NewWriterOptions(w, brotli.WriterOptions{Quality: quality, LGWin: 24}), nil
	}
	if *gzipped {
		extension, compress = ".gz", func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriterLevel(w, gzip.BestCompression) }
	}
	if err := pack(flag.Arg(0), extension, compress); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func pack(name, extension string, compress func(io.Writer) (io.WriteCloser, error)) error {
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	w, err := compress(&out)
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	fmt.Printf("%s%s: %d bytes of %d\n", name, extension, out.Len(), len(content))
	return os.WriteFile(name+extension, out.Bytes(), 0o644)
}
