// Command pack compresses files for servers: NAME.gz and NAME.br beside NAME. With -best it
// uses brotli's highest level, which takes some ten times as long.
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
	best := flag.Bool("best", false, "compress as far as it goes")
	flag.Parse()
	quality := 9
	if *best {
		quality = brotli.BestCompression
	}
	for _, name := range flag.Args() {
		if err := pack(name, quality); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func pack(name string, quality int) error {
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	gz := func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriterLevel(w, gzip.BestCompression) }
	br := func(w io.Writer) (io.WriteCloser, error) {
		return brotli.NewWriterOptions(w, brotli.WriterOptions{Quality: quality, LGWin: 24}), nil
	}
	for suffix, to := range map[string]func(io.Writer) (io.WriteCloser, error){".gz": gz, ".br": br} {
		var out bytes.Buffer
		w, err := to(&out)
		if err != nil {
			return err
		}
		if _, err := w.Write(content); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		if err := os.WriteFile(name+suffix, out.Bytes(), 0o644); err != nil {
			return err
		}
		fmt.Printf("%s%s: %d bytes of %d\n", name, suffix, out.Len(), len(content))
	}
	return nil
}
