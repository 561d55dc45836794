// Command pack compresses a file for servers: NAME.br beside NAME. With -best it uses brotli's
// highest level, which takes some ten times as long.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"

	"github.com/andybalholm/brotli"
)

func main() {
	best := flag.Bool("best", false, "compress at the highest level")
	flag.Parse()
	quality := 9
	if *best {
		quality = brotli.BestCompression
	}
	if err := pack(flag.Arg(0), quality); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func pack(name string, quality int) error {
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	w := brotli.NewWriterOptions(&out, brotli.WriterOptions{Quality: quality, LGWin: 24})
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	fmt.Printf("%s.br: %d bytes of %d\n", name, out.Len(), len(content))
	return os.WriteFile(name+".br", out.Bytes(), 0o644)
}
