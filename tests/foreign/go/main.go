// Command foreign runs Go clients against a broker: the suites of amqp091-go, go-amqp and rabbitmq-stream-go-client, and
// the loads of the crash suite over both protocols.
//
//	foreign suite|go-amqp|go-stream --uri URI    one JSON result a line
//	foreign load091|load10 --uri URI   publishes and consumes until told to stop (load.go)
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	arguments := os.Args[2:]
	switch os.Args[1] {
	case "suite":
		runSuite("amqp091-go", allCases(), arguments)
	case "go-amqp":
		runSuite("go-amqp", cases10(), arguments)
	case "go-stream":
		runSuite("go-stream", casesStream(), arguments)
	case "load091":
		runLoad(arguments, open091, turnMax)
	case "load10":
		runLoad(arguments, open10, 0)
	default:
		usage()
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: foreign suite|go-amqp|go-stream|load091|load10 --uri URI")
	os.Exit(64)
}
