// The command build makes the site of the repository in the working directory:
//
//	go run ./docs/site/build bin/site
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/setpoint-dev/setpoint/docs/site"
)

func main() {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: build FOLDER\nWrites the site of the repository in the working directory into FOLDER.")
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	into := flag.Arg(0)
	entries, err := site.Build(".", into)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%s/index.html: search knows %d places\n", into, len(entries))
}
