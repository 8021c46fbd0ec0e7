srand(1); my %seen;
for my $i (1 .. 150000) { push @{$seen{int(rand(20000)) . "x" x ($i % 40)}}, "word $i"; }
my $n = 0; for my $k (sort keys %seen) { $n += @{$seen{$k}}; delete $seen{$k} if $n % 2; }
