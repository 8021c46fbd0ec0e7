module freehold.example/sample

go 1.19
