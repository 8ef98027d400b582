module github.com/retrace-dev/engine

go 1.26
