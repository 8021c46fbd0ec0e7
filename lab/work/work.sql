-- work.sql - tables, indices, joins, windows, JSON and full text; the result of each is printed
create table items (id integer primary key, class integer, name text, price real, body blob);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 120000)
insert into items select i, i * 7919 % 613, printf('item %05d %s', i, hex(i * 104729 % 65537)), (i * 31 % 10007) / 7.0,
  zeroblob(i % 90) from n;
create index items_class on items (class, price);
create index items_name on items (name);
select count(*), sum(length(body)), printf('%.4f', sum(price)) from items;
select class, count(*), printf('%.3f', avg(price)), group_concat(id % 10, '') from items group by class order by 2 desc, 1 limit 8;
select id, name from items where name > 'item 05' order by name desc limit 5;
begin;
update items set name = upper(name) || ':' || class where id % 3 = 0;
delete from items where id % 11 = 5;
savepoint half;
delete from items where id % 2 = 0;
rollback to half;
commit;
select count(*), max(name), min(name) from items;
select a.class, count(*) from items a join items b on a.class = b.class and b.id = a.id + 613 group by 1 order by 2 desc, 1 limit 5;
select * from (select id, class, rank() over (partition by class order by price desc, id) r,
  sum(id) over (partition by class order by id rows 5 preceding) s from items) where r <= 2 order by class, r limit 20;
select json_group_array(json_object('class', class, 'total', total)) from
  (select class, sum(id) total from items where class < 12 group by class order by class);
select sum(value) from json_each((select json_group_array(id) from items where id < 20000));
create virtual table texts using fts5(title, body);
insert into texts select name, replace(hex(zeroblob(id % 40)), '00', 'word' || (id % 17) || ' ') from items where id < 15000;
select count(*) from texts where texts match 'word3 NOT word5' or texts match 'word9';
select title, snippet(texts, 1, '[', ']', '..', 4) from texts where texts match 'word7' order by rank, title limit 3;
vacuum;
pragma integrity_check;
